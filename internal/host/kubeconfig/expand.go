package kubeconfig

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Expand returns the files that configured paths stand for: "~" is the home of
// the service's account, an entry may be a list with colons as in $KUBECONFIG,
// and globs stand for the regular files that match now. A path without a glob
// is kept also when there is no such file yet.
//
// Each file is there once, by the first of its names, in the order given: that
// name and not what it links to, since it is the one kind and kubectl lock.
// What cannot be expanded is left out and is in the error; the rest counts.
//
// It is only for paths of the configuration, never for those jobs name.
func Expand(patterns []string) ([]string, error) {
	var files []string
	var errs []error
	seen := map[string]bool{}
	add := func(path string) {
		if id := identity(path); !seen[id] {
			seen[id] = true
			files = append(files, path)
		}
	}
	for _, list := range patterns {
		for _, pattern := range filepath.SplitList(list) {
			if pattern == "" {
				continue
			}
			path, err := absolute(pattern)
			if err != nil {
				errs = append(errs, fmt.Errorf("kubeconfig path %q: %w", pattern, err))
				continue
			}
			if !strings.ContainsAny(path, `*?[\`) {
				add(path)
				continue
			}
			matches, err := filepath.Glob(path)
			if err != nil {
				errs = append(errs, fmt.Errorf("kubeconfig path %q: %w", pattern, err))
			}
			for _, match := range matches {
				if isCandidate(match) {
					add(match)
				}
			}
		}
	}
	return files, errors.Join(errs...)
}

func absolute(path string) (string, error) {
	if path == "~" || strings.HasPrefix(path, "~/") {
		home, err := home()
		if err != nil {
			return "", err
		}
		path = home + path[1:]
	}
	// kind and kubectl would take a relative path, and make the file in
	// whatever folder they run in.
	if !filepath.IsAbs(path) {
		return "", errors.New("must be absolute or begin with ~/")
	}
	return filepath.Clean(path), nil
}

// home does without $HOME, which a system service need not have.
func home() (string, error) {
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return "", fmt.Errorf("no home for ~: %w", err)
	}
	return u.HomeDir, nil
}

// isCandidate leaves out what a glob should not have meant: folders, pipes,
// locks, and files under construction.
func isCandidate(path string) bool {
	if strings.HasSuffix(path, lockSuffix) || strings.HasSuffix(path, temporarySuffix) {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// identity is equal for two names of one file, whether it exists or not.
func identity(path string) string {
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil {
		return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(folder, filepath.Base(path))
	}
	return path
}
