// Package inventory holds what is known about a testbed's clusters and decides
// what becomes of them.
//
// Three pure functions are its heart: [Sight] notes what was just seen, [Plan]
// decides for every cluster what to do now and why, and the lease rules
// ([Register], [Renew], [Release], [SetHold]) decide what a caller may do. They
// perform no I/O, read no clock and never change their arguments: the same
// input gives the same output. Everything else in this program brings them
// data or carries out what they say.
//
// The package imports the standard library only, and none of our packages.
package inventory
