package main

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// shell plays the command lines that kind passes to sh -c and bash -c. They
// are recognised as a whole; nothing is parsed or executed.
func shell(args []string, out io.Writer) error {
	if len(args) != 2 || args[0] != "-c" {
		return errUsage
	}
	line := args[1]
	// "kind create" with containerd patches: containerd does not run here, so
	// the left side of the || holds.
	if line == "! pgrep --exact containerd || systemctl restart containerd" {
		return nil
	}
	// "kind export logs" fetches a folder, in the words of its logs.DumpDir.
	if rest, ok := strings.CutPrefix(line, "tar --hard-dereference -C "); ok {
		if dir, _, ok := strings.Cut(rest, " -chf - . "); ok {
			return tarDir(strings.Trim(dir, "'"), out)
		}
	}
	return errUsage
}

// tarDir writes the folders and regular files below dir as a tar stream.
func tarDir(dir string, out io.Writer) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || !d.IsDir() && !info.Mode().IsRegular() {
			return err
		}
		h, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		h.Name = "./" + rel
		if d.IsDir() {
			h.Name += "/"
		}
		if err := w.WriteHeader(h); err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
