package api

import (
	"context"
	"net"
	"net/http"
	"syscall"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

type peerKey struct{}

// peer is who opened a connection, as the kernel noted it when they did.
type peer struct {
	uid, gid uint32
	pid      int // 0 when the peer's process is not visible from here
}

// ConnContext notes who is at the other end of a connection. It is for
// [http.Server]; connections that the kernel cannot vouch for are served
// nothing.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return ctx
	}
	var cred *syscall.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || credErr != nil {
		return ctx
	}
	return withPeer(ctx, peer{uid: cred.Uid, gid: cred.Gid, pid: int(cred.Pid)})
}

func withPeer(ctx context.Context, p peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

func peerOf(r *http.Request) (peer, bool) {
	p, ok := r.Context().Value(peerKey{}).(peer)
	return p, ok
}

// caller is who speaks. Whether it is an admin is asked only where it matters:
// it may take a look at the group database.
func (s *Server) caller(r *http.Request) inventory.Caller {
	p, _ := peerOf(r) // guard has refused those without
	return inventory.Caller{UID: p.uid, GID: p.gid, PID: p.pid}
}

func (s *Server) callerWithRights(r *http.Request) inventory.Caller {
	c := s.caller(r)
	if s.opt.IsAdmin != nil {
		c.Admin = s.opt.IsAdmin(c.UID, c.GID, c.PID)
	} else {
		c.Admin = c.UID == 0
	}
	return c
}
