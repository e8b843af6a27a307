# shellcheck shell=bash disable=SC2034  # the scripts that source this use what is set here
# Shared parts of the sandbox: where things lie, waiting by condition, starting and stopping one
# cluster. Sourced by up, down, status, env and fill; it runs nothing by itself.
#
# A sandbox is a directory. Every cluster is a folder below it with its own munge key, controller,
# nodes and configuration, so that several "facilities" live on one host and cannot see each other:
#   DIR/sandbox.conf            names, ports and plugin of this sandbox; its presence marks it as ours
#   DIR/NAME/etc/slurm.conf     what SLURM_CONF points to
#   DIR/NAME/{state,spool,log,pid,tmp}

PATH=$PATH:/usr/sbin:/sbin
SANDBOX_HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() { # CODE MESSAGE...: one sentence on stderr, then the end.
  local code=$1
  shift
  printf 'sandbox: %s\n' "$*" >&2
  exit "$code"
}

default_dir() { printf '%s/fedqueue-sandbox-%s' "${XDG_RUNTIME_DIR:-${TMPDIR:-/tmp}}" "$(id -u)"; }

# absolute PATH: the same path from /, without requiring that it exists.
absolute() { realpath -m -- "$1"; }

# wait_until SECONDS COMMAND...: runs COMMAND until it succeeds; fails when the time is over.
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.05
  done
}

# alive PID: true for a process that is there and is not a zombie (kill -0 cannot tell them apart).
alive() {
  local state
  state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null) || return 1
  [[ -n $state && $state != Z* && $state != X* ]]
}

read_pid() { # FILE: prints the process id in it, if there is one.
  local pid=""
  [[ -r $1 ]] && read -r pid <"$1"
  [[ $pid =~ ^[0-9]+$ ]] && printf '%s' "$pid"
}

# pid_is NAME-PATTERN PID: a pid file may be old and its number taken by somebody else since.
pid_is() {
  local name=""
  # shellcheck disable=SC2053  # the right-hand side is meant as a pattern
  alive "$2" && read -r name <"/proc/$2/comm" && [[ $name == $1 ]]
}

listening_ports() { # prints every TCP port of this host that something listens on
  local number
  awk '$4 == "0A" {split($2, part, ":"); print part[2]}' /proc/net/tcp /proc/net/tcp6 2>/dev/null |
    sort -u | while read -r number; do printf '%d\n' "0x$number"; done
}

# taken_ports BASE CLUSTERS NODES: prints those of the ports we would use that are in use.
taken_ports() {
  local base=$1 clusters=$2 nodes=$3 used i port
  used=" $(listening_ports | tr '\n' ' ') "
  for ((i = 0; i < clusters; i++)); do
    for ((port = base + 100 * i; port <= base + 100 * i + nodes; port++)); do
      [[ $used == *" $port "* ]] && printf '%s ' "$port"
    done
  done
  return 0
}

# free_base CLUSTERS NODES: a base port with a free block behind it, different for each process.
free_base() {
  local base tries
  for ((tries = 0; tries < 60; tries++)); do
    base=$((21100 + (($$ + tries * 7) % 90) * 100))
    if [[ -z $(taken_ports "$base" "$1" "$2") ]]; then
      printf '%s' "$base"
      return 0
    fi
  done
  return 1
}

# load_sandbox DIR: sets names, ports and so on from DIR/sandbox.conf; fails when it is not there.
load_sandbox() {
  sandbox_names=() sandbox_nodes=0 sandbox_base=0
  [[ -r $1/sandbox.conf ]] || return 1
  # shellcheck source=/dev/null  # written by up
  source "$1/sandbox.conf"
}

# in_cluster CONF COMMAND...: runs a Slurm command for one cluster, outside any job we may be in.
in_cluster() (
  local variable
  for variable in ${!SLURM_*}; do unset "$variable"; done
  export SLURM_CONF=$1
  shift
  exec "$@"
)

# detached CONF LOG COMMAND...: starts a daemon for one cluster. It keeps none of our file
# descriptors (a caller that waits for the end of our output would wait for ever), and carries the
# sandbox's mark in its environment, by which down finds it even if its pid file is missing.
detached() (
  local log=$2 fd descriptor
  for descriptor in "/proc/$BASHPID/fd/"*; do
    fd=${descriptor##*/}
    ((fd > 2 && fd != 255)) && eval "exec $fd>&-" 2>/dev/null
  done
  export FEDQUEUE_SANDBOX_CONF=$1
  cd / && in_cluster "$1" "${@:3}" </dev/null >>"$log" 2>&1
)

nodes_idle() { # CONF COUNT
  [[ $(in_cluster "$1" timeout 5 sinfo -h -p main -t idle -o %D 2>/dev/null) == "$2" ]]
}

is_socket() { [[ -S $1 ]]; }

no_jobs() { [[ -z $(in_cluster "$1" timeout 5 squeue -h -o %A 2>/dev/null) ]]; }

# marked_processes CONF: process ids of daemons and jobs of exactly this cluster. A user's own
# shell or editor may have the same SLURM_CONF, so that alone is not enough: a daemon carries our
# mark, a job's process carries a job id. Our own ancestors are left out. A slurmstepd writes its title
# over its environment, but its working directory is the cluster's log folder.
marked_processes() {
  local conf=$1 environ pid ancestors=" $$ $BASHPID " parent=$$ job folder
  while ((parent > 1)); do
    parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$parent/status" 2>/dev/null || echo 0)
    ancestors+="${parent:=0} "
  done
  while read -r environ; do
    pid=${environ#/proc/} pid=${pid%/environ}
    [[ $ancestors == *" $pid "* ]] && continue
    job=$( (tr '\0' '\n' <"$environ") 2>/dev/null |
      grep -cE "^(FEDQUEUE_SANDBOX_CONF=|SLURM_JOB_?ID=)" || true)
    ((job > 0)) && alive "$pid" && printf '%s\n' "$pid"
  done < <(grep -lzxFs "SLURM_CONF=$conf" /proc/[0-9]*/environ 2>/dev/null)
  while read -r folder; do
    folder=${folder%/comm}
    [[ $(readlink "$folder/cwd" 2>/dev/null) == "${conf%/etc/slurm.conf}/log" ]] || continue
    alive "${folder#/proc/}" && printf '%s\n' "${folder#/proc/}"
  done < <(grep -lx slurmstepd /proc/[0-9]*/comm 2>/dev/null)
  return 0
}

none_marked() { [[ -z $(marked_processes "$1") ]]; }

# signal_pid_file SIGNAL FILE NAME-PATTERN: signals the process of a pid file, if it is the right one.
signal_pid_file() {
  local pid
  pid=$(read_pid "$2") || return 0
  if pid_is "$3" "$pid"; then kill "-$1" "$pid" 2>/dev/null || true; fi
}

pid_file_done() { # FILE NAME-PATTERN
  local pid
  pid=$(read_pid "$1") || return 0
  ! pid_is "$2" "$pid"
}

stop_filler() { # CLUSTER-DIR
  signal_pid_file TERM "$1/pid/filler.pid" bash
  wait_until 5 pid_file_done "$1/pid/filler.pid" bash || signal_pid_file KILL "$1/pid/filler.pid" bash
  rm -f "$1/pid/filler.pid"
}

# stop_cluster CLUSTER-DIR: everything of one cluster, however little of it is running.
stop_cluster() {
  local cluster=$1 conf=$1/etc/slurm.conf file signal
  [[ -d $cluster/pid ]] || return 0
  stop_filler "$cluster"
  if ! pid_file_done "$cluster/pid/slurmctld.pid" 'slurmctld*' && [[ -r $conf ]]; then
    in_cluster "$conf" timeout 5 scancel --me >/dev/null 2>&1 || true
    in_cluster "$conf" timeout 5 scancel --user=root >/dev/null 2>&1 || true
    wait_until 4 no_jobs "$conf" || true
  fi
  for file in "$cluster"/pid/slurmd-*.pid; do signal_pid_file TERM "$file" 'slurmd*'; done
  signal_pid_file TERM "$cluster/pid/slurmctld.pid" 'slurmctld*'
  for file in "$cluster"/pid/slurmd-*.pid; do wait_until 5 pid_file_done "$file" 'slurmd*' || true; done
  wait_until 5 pid_file_done "$cluster/pid/slurmctld.pid" 'slurmctld*' || true
  signal_pid_file TERM "$cluster/pid/munged.pid" munged
  wait_until 5 pid_file_done "$cluster/pid/munged.pid" munged || true
  for signal in TERM KILL; do
    none_marked "$conf" && return 0
    marked_processes "$conf" | xargs -r kill "-$signal" 2>/dev/null || true
    wait_until 3 none_marked "$conf" || true
  done
  none_marked "$conf"
}

# stop_sandbox DIR: all clusters at the same time; the directory stays.
stop_sandbox() {
  local name waiting=() status=0 process
  for name in "$1"/*/etc; do
    [[ -d $name ]] || continue
    stop_cluster "${name%/etc}" &
    waiting+=($!)
  done
  for process in "${waiting[@]}"; do wait "$process" || status=1; done
  return "$status"
}
