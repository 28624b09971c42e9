package host

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// Listening tells whether a process listens on a TCP address of this machine.
// It reads the kernel's tables instead of connecting, because the service is
// allowed no sockets but unix ones, and because a connection is noticed.
//
// A listener on all addresses of the port counts, also one of the other
// family: :: usually serves IPv4 as well. The address 0.0.0.0 or :: asks for
// any listener on the port. The tables are those of the service's own network
// namespace, so it must not run with PrivateNetwork=yes. Ports that Docker
// publishes without its userland proxy have no listener.
//
// An error means that it is not known. A "no" is one reading of a table that
// the kernel does not hold still; look twice before acting on it.
func Listening(address netip.AddrPort) (bool, error) { return listening("/proc/net", address) }

func listening(dir string, address netip.AddrPort) (bool, error) {
	if !address.IsValid() || address.Port() == 0 {
		return false, fmt.Errorf("whether somebody listens: %q is no address with a port", address)
	}
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(dir + "/" + table)
		if table == "tcp6" && errors.Is(err, fs.ErrNotExist) {
			return false, nil // a kernel without IPv6
		}
		if err != nil {
			return false, fmt.Errorf("whether somebody listens on %s: %w", address, err)
		}
		found, err := tableHas(f, address)
		_ = f.Close()
		if err != nil {
			return false, fmt.Errorf("whether somebody listens on %s: %s: %w", address, f.Name(), err)
		}
		if found {
			return true, nil
		}
	}
	return false, nil
}

// stateListen is TCP_LISTEN of the kernel's include/net/tcp_states.h.
const stateListen = "0A"

func tableHas(table io.Reader, want netip.AddrPort) (bool, error) {
	lines := bufio.NewScanner(table)
	if !lines.Scan() || !strings.Contains(lines.Text(), "local_address") {
		return false, errors.Join(errors.New("it has no headings"), lines.Err())
	}
	for lines.Scan() {
		fields := strings.Fields(lines.Text()) // "0: 0100007F:1F90 00000000:0000 0A …"
		if len(fields) < 4 {
			return false, fmt.Errorf("a line that makes no sense: %.80q", lines.Text())
		}
		if fields[3] != stateListen {
			continue
		}
		local, err := parseAddress(fields[1])
		if err != nil {
			return false, err
		}
		if local.Port() == want.Port() && covers(local.Addr(), want.Addr().Unmap().WithZone("")) {
			return true, nil
		}
	}
	return false, lines.Err()
}

func covers(listener, want netip.Addr) bool {
	return listener == want || listener.IsUnspecified() || want.IsUnspecified()
}

// parseAddress reads what the kernel prints as words of 32 bits in the order
// of the machine (net/ipv4/tcp_ipv4.c, get_tcp4_sock).
func parseAddress(s string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	if err != nil || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, fmt.Errorf("an address that makes no sense: %.80q", s)
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	addr, _ := netip.AddrFromSlice(b)
	p, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("a port that makes no sense: %.80q", s)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(p)), nil
}
