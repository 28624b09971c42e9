package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/testbed-janitor/janitor/internal/api"
)

// Exit statuses, as documented.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitConflict    = 3
	exitNotFound    = 4
	exitUnreachable = 5
	exitLost        = 6
	exitWaited      = 8
)

// codes is the one place where a refusal becomes an exit status.
var codes = map[string]int{
	"invalid": exitUsage, "bad-request": exitUsage,
	"occupied": exitConflict, "reaping": exitConflict, "held": exitConflict, "dry-run": exitConflict, "conflict": exitConflict, "forbidden": exitFailed,
	"not-found": exitNotFound, "lease-lost": exitLost, "timeout": exitWaited,
}

// usageError is a wrong command line.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitCode says how a command ended.
func exitCode(err error) int {
	var refused *api.Error
	var wrong usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong), strings.HasPrefix(err.Error(), "unknown command"):
		return exitUsage
	case errors.Is(err, api.ErrUnreachable):
		return exitUnreachable
	case errors.As(err, &refused):
		if code, ok := codes[refused.Code]; ok {
			return code
		}
	}
	return exitFailed
}
