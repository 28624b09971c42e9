package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/testbed-janitor/janitor/internal/api"
	"github.com/testbed-janitor/janitor/internal/inventory"
)

// Exit statuses, as docs/api.md has them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitConflict    = 3
	exitNotFound    = 4
	exitUnreachable = 5
	exitLeaseLost   = 6
	exitTimeout     = 8
)

// statuses is the one place where a refusal of the service becomes an exit
// status. What is not here is a failure.
var statuses = map[inventory.Code]int{
	inventory.CodeInvalid:   exitUsage,
	inventory.CodeOccupied:  exitConflict,
	inventory.CodeReaping:   exitConflict,
	inventory.CodeHeld:      exitConflict,
	inventory.CodeConflict:  exitConflict,
	inventory.CodeDryRun:    exitConflict,
	inventory.CodeNotFound:  exitNotFound,
	inventory.CodeLeaseLost: exitLeaseLost,
	inventory.CodeTimeout:   exitTimeout,
	"stopping":              exitUnreachable, // asked again in a moment it answers
}

// failure is an error that knows its exit status.
type failure struct {
	status  int
	message string
}

func (f *failure) Error() string { return f.message }

// usage is a wrong command line.
func usage(format string, args ...any) error {
	return &failure{exitUsage, fmt.Sprintf(format, args...)}
}

// conflict is something that stands in the way of what was asked for.
func conflict(format string, args ...any) error {
	return &failure{exitConflict, fmt.Sprintf(format, args...)}
}

// exitStatus says how a command ended.
func exitStatus(err error) int {
	if err == nil {
		return exitDone
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.status
	}
	if refused, ok := errors.AsType[*api.Error](err); ok {
		if status, ok := statuses[inventory.Code(refused.Code)]; ok {
			return status
		}
		return exitFailed
	}
	if errors.Is(err, api.ErrUnreachable) {
		return exitUnreachable
	}
	return exitFailed
}

// refusedAs reports whether the service refused with one of the codes.
func refusedAs(err error, codes ...inventory.Code) bool {
	refused, ok := errors.AsType[*api.Error](err)
	if !ok {
		return false
	}
	for _, c := range codes {
		if refused.Code == string(c) {
			return true
		}
	}
	return false
}

// explain is the message of an error, for people.
func explain(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted; what was asked for may have been carried out"
	}
	return err.Error()
}
