package host

import (
	"fmt"
	"os"
	"strings"
)

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// BootID is the kernel's random name of the current boot (random(4)). It stays
// the same until the machine, not the service, starts again.
func BootID() (string, error) { return readBootID(bootIDFile) }

func readBootID(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	id := strings.TrimSpace(string(b))
	if len(id) != 36 || strings.Trim(id, "0123456789abcdef-") != "" {
		return "", fmt.Errorf("read the boot id: %s has %.80q, which is no UUID", file, id)
	}
	return id, nil
}
