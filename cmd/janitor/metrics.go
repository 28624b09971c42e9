package main

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/store"
)

// metrics reads everything at the moment it is asked for, from the loop and
// the store. No name of a cluster is a label: their number has no end.
type metrics struct {
	svc     *service
	started time.Time

	mu    sync.Mutex // guards what was counted in the history so far
	last  int64      // id of the last event
	reaps map[[2]string]float64
}

// newMetrics returns a handler with a registry of its own.
func newMetrics(s *service) http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&metrics{svc: s, started: s.clock.Wall(), reaps: map[[2]string]float64{}})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("janitor_"+name, help, labels, nil)
}

var (
	descInfo      = desc("build_info", "Always 1, with the version of the service.", "version")
	descClusters  = desc("clusters", "Rows of the inventory by state.", "state")
	descPasses    = desc("passes_total", "Passes since the start of the service.")
	descCoalesced = desc("passes_coalesced_total", "Moments of the schedule, pokes and requests that shared another's pass.")
	descDuration  = desc("last_pass_duration_seconds", "How long the last pass took.")
	descLastGood  = desc("last_good_pass_timestamp_seconds", "When a pass last ended without an error; absent before the first.")
	descDecisions = desc("last_pass_decisions", "Decisions of the last pass.", "verdict", "reason")
	descReaps     = desc("reaps_total", "Attempts to remove a cluster since the start of the service.", "reason", "result")
	descBrake     = desc("brake_orphans", "Orphans that the brake keeps.")
	descEngine    = desc("engine_up", "Whether the engine could be listed at the last look.")
	descDatabase  = desc("database_size_bytes", "Size of the database with its write-ahead log.")
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descInfo, descClusters, descPasses, descCoalesced, descDuration, descLastGood,
		descDecisions, descReaps, descBrake, descEngine, descDatabase,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	put := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	s := m.svc.loop.Status()
	put(descInfo, prometheus.GaugeValue, 1, version)
	put(descPasses, prometheus.CounterValue, float64(s.Passes))
	put(descCoalesced, prometheus.CounterValue, float64(s.Coalesced))
	put(descBrake, prometheus.GaugeValue, float64(s.BrakeCount))
	put(descDatabase, prometheus.GaugeValue, float64(m.svc.db.Size()))
	up := 0.0
	if s.Passes > 0 && s.Blind == "" {
		up = 1
	}
	put(descEngine, prometheus.GaugeValue, up)
	if s.Passes > 0 {
		put(descDuration, prometheus.GaugeValue, s.Last.EndedAt.Sub(s.Last.StartedAt).Seconds())
	}
	if !s.LastGood.IsZero() {
		put(descLastGood, prometheus.GaugeValue, float64(s.LastGood.UnixMilli())/1000)
	}
	decisions := map[[2]string]float64{}
	for _, d := range s.Last.Decisions {
		decisions[[2]string{string(d.Verdict), string(d.Reason)}]++
	}
	for k, n := range decisions {
		put(descDecisions, prometheus.GaugeValue, n, k[0], k[1])
	}

	counts, err := m.svc.db.Counts(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descClusters, err)
	} else {
		for _, state := range []inventory.State{inventory.Active, inventory.Released, inventory.Reaping, inventory.Closed} {
			put(descClusters, prometheus.GaugeValue, float64(counts[state]), string(state))
		}
	}
	reaps, err := m.countReaps(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descReaps, err)
	}
	for k, n := range reaps {
		put(descReaps, prometheus.CounterValue, n, k[0], k[1])
	}
}

// countReaps goes on counting in the history from where it ended.
func (m *metrics) countReaps(ctx context.Context) (map[[2]string]float64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		const page = 10_000
		events, err := m.svc.db.Events(ctx, store.EventFilter{Since: m.started, After: m.last, Limit: page})
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			m.last = max(m.last, e.ID)
			switch e.Kind {
			case "reaped":
				m.reaps[[2]string{e.Reason, "done"}]++
			case "reap-failed", "stuck":
				m.reaps[[2]string{e.Reason, "failed"}]++
			}
		}
		if len(events) < page {
			return maps.Clone(m.reaps), nil
		}
	}
}
