package host

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

func TestListeningOnRealSockets(t *testing.T) {
	tests := []struct {
		network, listen string
		yes, no         []string // addresses to ask for, with that port
	}{
		{"tcp4", "127.0.0.1:0", []string{"127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1"}, []string{"127.0.0.2", "::1"}},
		{"tcp4", "0.0.0.0:0", []string{"127.0.0.1", "127.0.0.2", "0.0.0.0"}, nil},
		{"tcp6", "[::1]:0", []string{"::1", "::", "::1%lo"}, []string{"127.0.0.1"}},
		{"tcp", "[::]:0", []string{"::1", "127.0.0.1", "0.0.0.0"}, nil},
	}
	for _, test := range tests {
		t.Run(test.listen, func(t *testing.T) {
			l, err := net.Listen(test.network, test.listen)
			if err != nil {
				if test.network != "tcp4" {
					t.Skipf("this machine has no IPv6: %v", err)
				}
				t.Fatal(err)
			}
			defer l.Close()
			port := l.Addr().(*net.TCPAddr).AddrPort().Port()
			ask := func(host string, want bool) {
				t.Helper()
				got, err := Listening(netip.AddrPortFrom(netip.MustParseAddr(host), port))
				if err != nil || got != want {
					t.Errorf("%s: %v, %v, want %v", host, got, err, want)
				}
			}
			for _, host := range test.yes {
				ask(host, true)
			}
			for _, host := range test.no {
				ask(host, false)
			}
			if other := port ^ 1; other != 0 { // the port is compared whole
				busy, err := Listening(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.99"), other))
				if err != nil || busy {
					t.Logf("the neighbouring port %d is in use too: %v, %v", other, busy, err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			for _, host := range test.yes {
				ask(host, false)
			}
		})
	}
}

// A connection uses the address without listening on it.
func TestConnectedIsNotListening(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var d net.Dialer
	client, err := d.DialContext(context.Background(), "tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_ = l.Close()
	for _, a := range []net.Addr{client.LocalAddr(), server.LocalAddr()} {
		if got, err := Listening(a.(*net.TCPAddr).AddrPort()); got || err != nil {
			t.Errorf("%s: %v, %v", a, got, err)
		}
	}
}

func TestListeningUnknown(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	at := netip.MustParseAddrPort("127.0.0.1:80")
	tests := map[string]struct {
		tcp, tcp6 string
		want      bool
		err       bool
	}{
		"none":           {tcp: head, tcp6: head},
		"without IPv6":   {tcp: head},
		"in the second":  {tcp: head, tcp6: head + "   0: 0000000000000000FFFF00000100007F:0050 00000000000000000000000000000000:0000 0A x\n", want: true},
		"other state":    {tcp: head + "   0: 0100007F:0050 0100007F:0051 01 x\n", tcp6: head},
		"other port":     {tcp: head + "   0: 0100007F:0051 00000000:0000 0A x\n", tcp6: head},
		"missing":        {tcp6: head, err: true},
		"empty":          {tcp: "\n", tcp6: head, err: true},
		"no headings":    {tcp: "   0: 0100007F:0050 00000000:0000 0A x\n", err: true},
		"short line":     {tcp: head + "   0: 01000\n", err: true},
		"broken address": {tcp: head + "   0: 0100007:0050 00000000:0000 0A x\n", err: true},
		"broken length":  {tcp: head + "   0: 0100:0050 00000000:0000 0A x\n", err: true},
		"broken port":    {tcp: head + "   0: 0100007F:10050 00000000:0000 0A x\n", err: true},
		"broken second":  {tcp: head, tcp6: head + "x\n", err: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"tcp": test.tcp, "tcp6": test.tcp6} {
				if text != "" {
					if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, err := listening(dir, at)
			if got != test.want || (err != nil) != test.err {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	if _, err := listening(t.TempDir(), at); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without /proc: %v", err)
	}
	for _, bad := range []netip.AddrPort{{}, netip.MustParseAddrPort("127.0.0.1:0")} {
		if _, err := Listening(bad); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}
