// Command node plays a kind node image, so that the real "kind create cluster"
// finishes in seconds with an image built on this machine and no registry.
//
// It is one static program under many names: what it does depends on the name
// it is called by, as with busybox. Each name does what kind v0.33 relies on:
//
//	entrypoint          says it is up, stays, and ends with a failure when it is
//	                    stopped (so that a restart policy of on-failure applies,
//	                    as it does to a real node)
//	cat, mkdir, cp      the uses kind has for them: read a file, mkdir -p,
//	                    copy standard input into a file
//	kubeadm             init leaves an admin.conf and the shared keys, join
//	                    only wants its configuration
//	kubectl             reads what it is given and says yes
//	bash, sh            the few fixed command lines of kind, by recognition
//	journalctl, crictl  a line, for "kind export logs"
//
// What it does not do: it runs no Kubernetes, no systemd and no containerd; it
// loads no images; no API server listens on the published port; the keys it
// makes are random bytes and no certificates; its shell is no shell, any other
// command line is refused with 127. It does not play the load balancer that
// kind puts before several control planes.
package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// stopped is the exit status of a node that was told to stop. Any but zero
// does: on-failure:1 brings only failed containers back. A real node ends with
// this one, systemd being interrupted.
const stopped = 130

// errUsage marks a call that kind v0.33 does not make, and that this program
// therefore does not play.
var errUsage = errors.New("the stand-in node does not play this command line")

func main() {
	name := filepath.Base(os.Args[0])
	code, err := run(name, os.Args[1:], os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	os.Exit(code)
}

// run plays one name and returns the exit status.
func run(name string, args []string, in io.Reader, out io.Writer) (int, error) {
	var err error
	switch name {
	case "entrypoint":
		return entrypoint(out), nil
	case "cat":
		err = cat(args, in, out)
	case "mkdir":
		err = mkdir(args)
	case "cp":
		err = cp(args, in)
	case "kubeadm":
		err = kubeadm("/", args, out)
	case "kubectl":
		err = kubectl(args, in, out)
	case "bash", "sh":
		err = shell(args, out)
	case "journalctl":
		_, err = fmt.Fprintln(out, "-- stand-in node: no journal --")
	case "crictl":
		_, err = fmt.Fprintln(out, "IMAGE   TAG   IMAGE ID   SIZE")
	default:
		err = errUsage
	}
	switch {
	case errors.Is(err, errUsage):
		return 127, fmt.Errorf("%w: %q", err, args)
	case err != nil:
		return 1, err
	}
	return 0, nil
}

// entrypoint prints the two lines kind waits for and stays until it is
// stopped. As process 1 it gets only the signals it asks for.
func entrypoint(out io.Writer) int {
	stop := make(chan os.Signal, 1)
	// 37 is SIGRTMIN+3, the stop signal of real node images.
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.Signal(37))
	fmt.Fprintln(out, "INFO: detected cgroup v1")
	fmt.Fprintln(out, "[  OK  ] Reached target Multi-User System (stand-in node).")
	<-stop
	return stopped
}

func cat(files []string, in io.Reader, out io.Writer) error {
	if len(files) == 0 {
		_, err := io.Copy(out, in)
		return err
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func mkdir(args []string) error {
	if len(args) != 2 || args[0] != "-p" {
		return errUsage
	}
	return os.MkdirAll(args[1], 0o755)
}

func cp(args []string, in io.Reader) error {
	if len(args) != 2 || args[0] != "/dev/stdin" {
		return errUsage
	}
	return write(args[1], in)
}

func write(name string, from io.Reader) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// sharedKeys is what kind copies from the first control plane to the others.
var sharedKeys = []string{
	"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key",
	"sa.pub", "sa.key", "etcd/ca.crt", "etcd/ca.key",
}

// kubeadm plays init and join. Both want the configuration kind must have
// written before; init leaves the files kind reads afterwards, below root.
func kubeadm(root string, args []string, out io.Writer) error {
	if len(args) == 0 || (args[0] != "init" && args[0] != "join") {
		return errUsage
	}
	config := ""
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, "--config="); ok {
			config = v
		} else if a == "--config" && i+1 < len(args) {
			config = args[i+1]
		}
	}
	if config == "" {
		return errUsage
	}
	if _, err := os.Stat(filepath.Join(root, config)); err != nil {
		return fmt.Errorf("unable to read the config: %w", err)
	}
	if args[0] == "join" {
		_, err := fmt.Fprintln(out, "This node has joined the cluster (stand-in).")
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "etc/kubernetes")
	for _, key := range sharedKeys {
		name := filepath.Join(dir, "pki", key)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := write(name, strings.NewReader(random()+"\n")); err != nil {
			return err
		}
	}
	if err := write(filepath.Join(dir, "admin.conf"), strings.NewReader(adminConf(host))); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "Your Kubernetes control-plane has initialized successfully! (stand-in)")
	return err
}

// adminConf is a kubeconfig as kubeadm writes it: one cluster, one user, one
// context. The credentials differ from node to node, so that a test can tell
// the entries of one cluster from those of a later one of the same name.
func adminConf(host string) string {
	secret := func() string { return base64.StdEncoding.EncodeToString([]byte(random())) }
	return `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: ` + secret() + `
    server: https://` + host + `:6443
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: kubernetes-admin
  name: kubernetes-admin@kubernetes
current-context: kubernetes-admin@kubernetes
kind: Config
preferences: {}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: ` + secret() + `
    client-key-data: ` + secret() + `
`
}

func random() string {
	b := make([]byte, 24)
	rand.Read(b) // never fails: see crypto/rand
	return hex.EncodeToString(b)
}

// kubectl reads the manifest it is given, if any, and agrees. Asked for the
// readiness of nodes ("kind create cluster --wait") it says they are ready.
func kubectl(args []string, in io.Reader, out io.Writer) error {
	for i, a := range args {
		switch {
		case a == "-f" && i+1 < len(args) && args[i+1] == "-":
			n, err := io.Copy(io.Discard, in)
			if err == nil && n == 0 {
				err = errors.New("error: no objects passed to create")
			}
			return err
		case a == "get":
			_, err := fmt.Fprintln(out, "'True'")
			return err
		}
	}
	return nil
}
