package testbed

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The tiers of this package. Tests may name others ("systemd").
const (
	TierEngine  = "engine"
	TierKind    = "kind"
	TierPrivate = "private-engine"
)

// Skip leaves the test out because this machine cannot run its tier, and notes
// it in the file JANITOR_TEST_SKIPS: one line "tier: reason". It fails the test
// instead where JANITOR_TEST_REQUIRE lists the tier.
func Skip(t testing.TB, tier, reason string) {
	t.Helper()
	reason = strings.Join(strings.Fields(reason), " ") // one line in the report
	if required(os.Getenv("JANITOR_TEST_REQUIRE"), tier) {
		t.Fatalf("JANITOR_TEST_REQUIRE demands the tier %q, but: %s", tier, reason)
	}
	if err := noteSkip(os.Getenv("JANITOR_TEST_SKIPS"), tier, reason); err != nil {
		t.Errorf("note the skip: %v", err)
	}
	t.Skipf("tier %s: %s", tier, reason)
}

func required(list, tier string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(s string) bool { return strings.TrimSpace(s) == tier })
}

// noteSkip appends one line with one write, so that test processes that run
// side by side do not mix theirs. The reader removes duplicates.
func noteSkip(file, tier, reason string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s: %s\n", tier, reason)
	return err
}
