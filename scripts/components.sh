# shellcheck shell=bash disable=SC2034  # what next_end sets is for the script
# Programs that a script starts, watches and stops. Sourced after lib.sh; the script sets `logs`.
#
# Every component runs in a session of its own: a Ctrl-C reaches the script alone, which then ends
# the others in order, and a component's own children can be ended with it.

declare -A component=() # process id -> name
logs=""

# start NAME COMMAND...: in the background, with its output in $logs/NAME.log.
start() {
  local name=$1
  shift
  setsid "$@" </dev/null >>"$logs/$name.log" 2>&1 &
  component[$!]=$name
}

# start_shown NAME COMMAND...: the same, with its output here as well.
start_shown() {
  local name=$1
  shift
  # shellcheck disable=SC2016  # to be expanded by the shell that is started
  setsid bash -o pipefail -c '"${@:2}" 2>&1 | tee -a "$1"' shown "$logs/$name.log" "$@" </dev/null &
  component[$!]=$name
}

# fail WHAT LOG...: which part failed, with the last lines of its logs; then the end.
fail() {
  local what=$1 log
  shift
  say "" && say "FAILED: $what."
  for log in "$@"; do
    [[ -s $log ]] || continue
    say "The end of $log:"
    tail -n 15 "$log" | sed 's/^/   /' >&2
  done
  exit 1
}

# next_end: waits until one component ends. Sets `ended` to its name and `ended_status`.
next_end() {
  local process status
  while true; do
    # Those first that have ended already: the shell may have told of their end before.
    for process in "${!component[@]}"; do
      running "$process" || break 2
    done
    status=0
    wait -n "${!component[@]}" 2>/dev/null || status=$?
  done
  ended_status=0
  wait "$process" 2>/dev/null || ended_status=$?
  ended=${component[$process]}
  unset "component[$process]"
}

running() { # PID: there, and not only waiting to be collected
  local state
  state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null) || return 1
  [[ -n $state && $state != [ZX]* ]]
}

# stop_components NAME-PATTERN: asks them to end, and makes them after ten seconds.
stop_components() {
  local process tries
  local -a chosen=()
  for process in "${!component[@]}"; do
    # shellcheck disable=SC2053  # the right-hand side is meant as a pattern
    if [[ ${component[$process]} == $1 ]]; then chosen+=("$process"); fi
  done
  for process in "${chosen[@]}"; do kill -TERM -- "-$process" 2>/dev/null || true; done
  for process in "${chosen[@]}"; do
    for ((tries = 0; tries < 100; tries++)); do
      running "$process" || break
      sleep 0.1
    done
    kill -KILL -- "-$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
    unset "component[$process]"
  done
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}
