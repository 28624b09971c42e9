package inventory_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/testbed-janitor/janitor/internal/inventory/driver"
)

const stepsOfOne = 300 // one history; then a new world

func torture(t *testing.T, steps int) {
	t.Helper()
	first := uint64(1)
	if s, err := strconv.ParseUint(os.Getenv("JANITOR_TEST_SEED"), 10, 64); err == nil {
		first, steps = s, stepsOfOne
	}
	var begun, leases int
	for seed := first; steps > 0; seed, steps = seed+1, steps-stepsOfOne {
		r := driver.Run(driver.Maps{}, seed, stepsOfOne)
		if r.Harm != "" {
			t.Fatalf("seed %d (JANITOR_TEST_SEED): %s\n%s", seed, r.Harm, strings.Join(r.Trace, "\n"))
		}
		begun, leases = begun+r.Begun, leases+r.Leases
	}
	if begun == 0 || leases == 0 {
		t.Fatalf("nothing happened: %d reaps begun, %d things made", begun, leases)
	}
	t.Logf("%d reaps begun, %d things made", begun, leases)
}

// TestDriver plays random histories of the whole testbed against the rules.
func TestDriver(t *testing.T) { torture(t, 30_000) }

// TestTortureDriver is the long run, with JANITOR_TEST_STEPS steps.
func TestTortureDriver(t *testing.T) {
	steps, err := strconv.Atoi(os.Getenv("JANITOR_TEST_STEPS"))
	if err != nil {
		t.Skip("set JANITOR_TEST_STEPS, to 1000000 say")
	}
	torture(t, steps)
}
