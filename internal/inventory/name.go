package inventory

import "fmt"

// MaxName is the longest cluster name in bytes that is taken at all; kind
// itself fails above maxKindName.
const (
	MaxName     = 200
	maxKindName = 50
)

// CheckName says what is wrong with a cluster name, or nil. The rule is kind's,
// and more: kind reads an empty name as the cluster "kind".
func CheckName(name string) error {
	const rule = "a cluster name has 1 to 200 characters of a-z, 0-9, '.' and '-', and starts with a letter or digit"
	if name == "" || len(name) > MaxName {
		return &Problem{Code: CodeInvalid, Message: fmt.Sprintf("name has %d bytes: %s", len(name), rule)}
	}
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '-') {
			return &Problem{Code: CodeInvalid, Message: fmt.Sprintf("name %q is not legal at byte %d: %s", name, i+1, rule)}
		}
	}
	return nil
}
