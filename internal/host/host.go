// Package host reads what this machine says about itself: which boot it is in,
// how long it has run, and whether somebody listens on an address.
//
// It reads /proc and a clock of the kernel, and changes nothing. What cannot be
// read is an error, never a "no".
package host
