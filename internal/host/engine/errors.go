package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/containerd/errdefs"
)

// explain says what was asked of which engine and what to do about the errors
// that have a remedy. The error's kind stays.
func (e *Engine) explain(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: no permission to use the Docker engine at %s; add the service's user to the group that owns the socket, usually docker, and restart the service: %w", what, e.host, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: the Docker engine at %s did not answer in time: %w", what, e.host, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the Docker engine at %s broke the connection, the outcome is unknown: %w", what, e.host, err)
	}
	return fmt.Errorf("%s: Docker engine at %s: %w", what, e.host, err)
}

// noSuch reports whether the engine said that there is no such thing. The
// status 404 alone does not: a proxy, or something that is no Docker Engine,
// answers it too, for containers that stand.
func noSuch(thing string, err error) bool {
	return errdefs.IsNotFound(err) && strings.Contains(strings.ToLower(err.Error()), "no such "+thing)
}

// inProgress reports whether a removal was refused because another is under
// way (daemon/delete.go of Docker). Other conflicts, such as a process that
// cannot be killed, are errors.
func inProgress(err error) bool {
	return errdefs.IsConflict(err) && strings.Contains(err.Error(), "is already in progress")
}

// inUse reports whether a volume was not removed because a container has it.
func inUse(err error) bool {
	return errdefs.IsConflict(err) && strings.Contains(err.Error(), "volume is in use")
}

// versionRefused reports whether the engine knows the version of the API that
// was used no more, or not any longer (api/server/middleware/version.go).
func versionRefused(err error) bool {
	return errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "client version ") && strings.Contains(err.Error(), " is too ")
}

// fullID reports whether s is a full container ID, which is also how the names
// of anonymous volumes look: 64 lower-case hexadecimal digits.
func fullID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
