// Package systemd holds no code: beside it lie the units, their drop-ins and
// the commented configuration that "make install" puts in place. Its tests
// install them into an empty folder and hold them against systemd and against
// the defaults of the program.
package systemd
