// Package testbed is what the tests stand on: a Docker engine to test against,
// kind clusters made in seconds from a stand-in node image, the janitor's own
// binary and daemon, and the rules for leaving out what a machine cannot run.
//
// The rules. A test asks for what it needs, by tier:
//
//	engine          a Docker engine that answers      Engine
//	kind            one that can run kind nodes       Kind
//	private-engine  one that may be frozen or killed  Private
//
// Where the machine does not have it the test is skipped with the reason, and
// the skip is noted in the file JANITOR_TEST_SKIPS, so that a run can say at its
// end what it did not test. JANITOR_TEST_REQUIRE, a comma list of tiers, turns
// such skips into failures: CI must not go green by skipping.
//
// The engine is JANITOR_TEST_DOCKER_HOST, else DOCKER_HOST, else the default
// socket: often the one somebody works with. So this package makes clusters
// only under a name prefix that no other process shares, removes only clusters
// of exactly the names it made, downloads nothing, and removes no network and
// no image. The image janitor-testbed/node and the network "kind" stay behind.
//
// It is for tests; no program of ours imports it.
package testbed
