package store

import (
	"context"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// List is Clusters with its filter spelled out, for callers that know no type
// of this package.
func (s *Store) List(ctx context.Context, state, owner, job string) ([]inventory.Cluster, error) {
	return s.Clusters(ctx, Filter{State: state, Owner: owner, Job: job})
}

// History is Events with its filter spelled out.
func (s *Store) History(ctx context.Context, name string, since time.Time, after int64) ([]inventory.Event, error) {
	return s.Events(ctx, EventFilter{Name: name, Since: since, After: after})
}
