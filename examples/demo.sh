#!/usr/bin/env bash
# The main job, before your eyes: a job registers a cluster, creates it, dies; the
# janitor removes it when the lease ends, and notices a cluster nobody registered.
#
# Everything here is the demo's own: folder, database, socket, kubeconfig, Docker
# network, and two clusters with names no one else has. On your Docker engine the
# janitor only reports what nobody registered. All of it is gone at the end, also
# after Ctrl-C. Run it with "make demo".
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."

# No setting of the caller's may lead the demo to other clusters than its own.
janitor=$(realpath "${JANITOR_BIN:-bin/janitor}")
for name in $(compgen -e); do
  case $name in
    JANITOR_* | JENKINS_* | BUILD_* | JOB_* | KIND_* | NOTIFY_SOCKET | LISTEN_* | WATCHDOG_*) unset "$name" ;;
  esac
done
[ -x "$janitor" ] || { echo "demo: $janitor is not there; run \"make demo\"" >&2; exit 1; }
for tool in go curl setsid timeout; do
  command -v "$tool" >/dev/null || { echo "demo: $tool is needed and not in the PATH" >&2; exit 1; }
done

id=$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')
cluster=janitor-demo-$id
orphan=janitor-demo-$id-orphan
dir='' daemon='' engine='' kind_run='' network='' image='' mode=''

bold='' plain=''
if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; fi
say() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
note() { printf '   %s\n' "$*"; }
exec 3>&1
run() { # shows a command as one would type it, and runs it
  printf '$ %s\n' "${*/#"$janitor"/janitor}" >&3
  "$@"
}
fail() {
  echo "demo: $*" >&2
  if [ -s "$dir/log" ]; then
    echo "demo: the last lines of the janitor:" >&2
    tail -n 20 "$dir/log" >&2
  fi
  exit 1
}

# end PID: asks it to end, and insists after a while.
end() {
  kill -TERM -- "$1" 2>/dev/null || true
  for _ in {1..100}; do
    kill -0 -- "$1" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL -- "$1" 2>/dev/null || true
}

# remove CLUSTER: by the whole name, also what is only half made.
remove() {
  local ids
  ids=$(timeout 20 docker ps -aq --no-trunc --filter "label=io.x-k8s.kind.cluster=$1") || return 1
  [ -n "$ids" ] || return 0
  # shellcheck disable=SC2086 # the ids are words
  timeout 60 docker rm -f -v $ids >/dev/null 2>&1 || return 1
}

# shellcheck disable=SC2317,SC2329 # called by the trap
finish() {
  local status=$?
  trap '' INT TERM HUP PIPE
  trap - EXIT
  set +e
  [ -z "$kind_run" ] || end "-$kind_run"
  [ -z "$daemon" ] || end "$daemon"
  [ -z "$engine" ] || end "$engine"
  if [ "$mode" != fake ] && [ -n "${DOCKER_HOST:-}" ]; then
    timeout 20 docker rm -f "$cluster-probe" >/dev/null 2>&1
    # A create that was cut short may still bring a container up: look again.
    for _ in 1 2; do
      remove "$cluster"
      remove "$orphan"
      [ "$status" = 0 ] || sleep 1
    done
    [ -z "$network" ] || timeout 20 docker network rm "$network" >/dev/null 2>&1
    if [ -n "${images_before+known}" ]; then
      # Without force: an image that somebody uses by now stays.
      for ref in ${image:-$(images)}; do
        case " $images_before " in *" $ref "*) ;; *) timeout 20 docker image rm "$ref" >/dev/null 2>&1 ;; esac
      done
    fi
    local left
    left=$(timeout 20 docker ps -aq --filter "label=io.x-k8s.kind.cluster=$cluster" &&
      timeout 20 docker ps -aq --filter "label=io.x-k8s.kind.cluster=$orphan") || left='(Docker does not answer)'
    if [ -n "$left" ]; then
      echo "demo: could not remove containers of $cluster or $orphan: $left" >&2
      [ "$status" != 0 ] || status=1
    fi
  fi
  [ -z "$dir" ] || rm -rf --one-file-system "$dir" || status=1
  [ "$status" != 0 ] || note 'nothing is left behind'
  exit "$status"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 141' PIPE
trap 'exit 143' TERM
dir=$(mktemp -d /tmp/janitor-demo-XXXXXX) # short: a socket lies in it

images() { timeout 20 docker images --format '{{.Repository}}:{{.Tag}}' janitor-testbed/node | tr '\n' ' '; }

# api PATH [CURL OPTIONS]: what a job without the command does.
api() {
  local path=$1
  shift
  curl -sS --fail-with-body --max-time 20 --unix-socket "$dir/janitor.sock" "$@" "http://localhost$path"
}

# field CLUSTER KEY: the first value of that key, as text.
field() {
  api "/v1/clusters/$1" 2>/dev/null | tr -d '\n' | grep -Eo "\"$2\": *\"[^\"]*\"" | head -n 1 | sed 's/.*: *"//; s/"$//' || true
}

# until_field CLUSTER KEY PATTERN SECONDS
until_field() {
  local value=''
  for _ in $(seq $(($4 * 5))); do
    value=$(field "$1" "$2")
    # shellcheck disable=SC2254 # it is a pattern
    case $value in $3) return 0 ;; esac
    sleep 0.2
  done
  fail "cluster $1: $2 is \"$value\" after $4 s, not $3"
}

# ---------------------------------------------------------------------------
say 'A testbed'
note "folder $dir, clusters $cluster and $orphan"

host=${DOCKER_HOST:-}
if command -v docker >/dev/null; then
  # The docker command follows contexts; the janitor is told what they come to.
  [ -n "$host" ] || host=$(docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null || true)
  unset DOCKER_CONTEXT
  case $host in
    unix://*)
      export DOCKER_HOST=$host
      if version=$(timeout 15 docker version --format '{{.Server.Version}}' 2>"$dir/why"); then
        mode=plain
        note "Docker $version at $host. It is yours: what nobody registered is only reported."
      else
        note "no Docker engine answers at $host: $(head -n 1 "$dir/why")"
      fi ;;
    *) note "the Docker engine \"$host\" is not on this machine" ;;
  esac
else
  note 'there is no docker command'
fi

if [ -n "$mode" ]; then
  images_before=$(images)
  note 'making a stand-in node image; nothing is downloaded'
  go build -o "$dir/image" ./internal/testbed/cmd/image
  read -r image runs < <("$dir/image" -host "$host" -name "$cluster-probe" 2>"$dir/why") ||
    fail "no node image: $(cat "$dir/why")"
  if [ "$runs" = privileged ]; then
    mode=kind
    note 'building the kind command that go.mod names'
    kind=$(go tool -n kind)
    network=$cluster
    export KIND_EXPERIMENTAL_DOCKER_NETWORK=$network KIND_EXPERIMENTAL_PROVIDER=docker
  else
    note 'this engine refuses the privileged containers that kind needs:'
    note "  $(grep -o 'Error response from daemon.*' "$dir/why" | head -n 1 || true)"
    note "so plain containers with kind's labels stand in for kind's clusters"
  fi
else
  mode=fake
  note 'so a fake engine, made for the tests, stands in for Docker'
  go build -o "$dir/engine" ./internal/testbed/fakeengine/cmd
  "$dir/engine" -socket "$dir/engine.sock" -control "$dir/control.sock" >"$dir/engine.out" 2>&1 &
  engine=$!
  for _ in {1..100}; do
    [ ! -s "$dir/engine.out" ] || break
    sleep 0.1
  done
  host=$(head -n 1 "$dir/engine.out")
  [ "$host" = "unix://$dir/engine.sock" ] || fail "the fake engine does not start: $host"
fi

# On an engine of the demo's own an orphan may also be removed.
action=report
[ "$mode" != fake ] || action=reap

cat >"$dir/janitor.yaml" <<END
socket: $dir/janitor.sock
database: $dir/janitor.db
docker_host: $host
kubeconfigs: [$dir/kubeconfig]
schedule: "@every 1s"
lease: {default_ttl: 15s, max_ttl: 10m, create_grace: 5s, owner_grace: 2s}
orphans: {action: $action, grace: 6s, max_per_hour: 3}
END
export HOME=$dir/home KUBECONFIG=$dir/kubeconfig JANITOR_SOCKET=$dir/janitor.sock
mkdir "$HOME"

SECONDS=0
say "The janitor, with a schedule of one second"
cat "$dir/janitor.yaml"
printf '$ janitor serve --config %s &\n' "$dir/janitor.yaml"
"$janitor" serve --config "$dir/janitor.yaml" >"$dir/log" 2>&1 &
daemon=$!
for n in {1..100}; do
  if api /readyz >/dev/null 2>&1; then break; fi
  if [ "$n" = 100 ] || ! kill -0 "$daemon" 2>/dev/null; then fail 'the janitor does not start'; fi
  sleep 0.1
done
note 'it serves'

# ---------------------------------------------------------------------------
renew() { "$janitor" renew "$cluster" --owner demo/1 --ttl 15s >/dev/null || fail 'the lease was lost'; }

# make_nodes CLUSTER: what a job does after it registered, and a stranger at once.
make_nodes() {
  case $mode in
    kind)
      printf '$ kind create cluster --name %s\n' "$1"
      setsid "$kind" create cluster --name "$1" --image "$image" --kubeconfig "$dir/kubeconfig" >"$dir/kind.log" 2>&1 </dev/null &
      kind_run=$!
      # A slow machine needs longer than this short lease: the job renews it.
      for ((n = 0; ; n++)); do
        kill -0 "$kind_run" 2>/dev/null || break
        [ $((n % 15)) != 14 ] || renew
        sleep 0.2
      done
      wait "$kind_run" || fail "kind failed: $(tail -n 5 "$dir/kind.log")"
      kind_run='' ;;
    plain)
      run docker run -d --label "io.x-k8s.kind.cluster=$1" --label io.x-k8s.kind.role=control-plane \
        --network none --volume /var --name "$1-control-plane" "$image" >"$dir/out"
      head -n 1 "$dir/out" ;;
    fake)
      note "(the fake engine is told to show a control plane of $1)"
      curl -sS --fail --unix-socket "$dir/control.sock" -X POST \
        "http://fake/_fake/nodes?cluster=$1&role=control-plane" >/dev/null ;;
  esac
}

say 'A job registers, with plain curl, and creates its cluster'
run curl -sS --fail-with-body --unix-socket "$dir/janitor.sock" http://localhost/v1/clusters \
  -d "name=$cluster" -d ttl=15s --data-urlencode owner=demo/1 >"$dir/out" ||
  fail "the registration was refused: $(cat "$dir/out")"
cat "$dir/out"
echo
make_nodes "$cluster"
until_field "$cluster" reason leased 10
run "$janitor" list

say 'Somebody else creates a cluster and tells nobody'
make_nodes "$orphan"
renew
until_field "$orphan" state active 10
run "$janitor" list
run "$janitor" plan

say 'The job is gone; its lease ends'
note 'nobody renews it; the janitor waits for its end, and not a second less'
until_field "$cluster" state closed 40
note "closed: $(field "$cluster" close_reason), after $SECONDS s"
run "$janitor" events --name "$cluster"
case $mode in
  kind | plain)
    left=$(docker ps -aq --filter "label=io.x-k8s.kind.cluster=$cluster")
    [ -z "$left" ] || fail "containers of $cluster are still there: $left"
    note "docker ps shows nothing of $cluster any more" ;;
esac
if [ "$mode" = kind ]; then
  if grep -q "kind-$cluster\$" "$dir/kubeconfig"; then fail "kind-$cluster is still in the kubeconfig"; fi
  grep -q "kind-$orphan\$" "$dir/kubeconfig" || fail "kind-$orphan should still be in the kubeconfig"
  note "the kubeconfig has lost kind-$cluster, and nothing else"
fi

say 'The orphan'
if [ "$action" = report ]; then
  until_field "$orphan" reason reported 10
  run "$janitor" list
  note 'it is noticed and reported. With orphans.action: reap it would go after its grace.'
  note 'On an engine that is not its own, the demo takes away by name what it made.'
else
  until_field "$orphan" state closed 40
  run "$janitor" events --name "$orphan"
  note 'its grace was over, so it went too'
fi

say "Done in $SECONDS s"
