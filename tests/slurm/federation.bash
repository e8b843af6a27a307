# shellcheck shell=bash disable=SC2034  # what is set here is for the tests
# What the federation_*.bats files share: one Slurm cluster and one facility's data per file, and for
# each test a run of its own with server, agent and jobs of two MPI ranks.
# shellcheck source-path=SCRIPTDIR source=plugin_helpers.bash
source "$BATS_TEST_DIRNAME/plugin_helpers.bash"
: "${FEDQUEUE_BUILD:?set it to the build folder}"
TEMPLATE=$(realpath "$BATS_TEST_DIRNAME/../../batch_scripts/fedqueue-cpu.sbatch")

# A segment that no test waits for to end: it is interrupted.
ENDLESS=100000000

# start_site: for setup_file. Of sixty parts of Fashion-MNIST the facility has one: 1,000 pictures.
start_site() {
  start_cluster ""
  export PATH=$FEDQUEUE_BUILD/fedserver:$FEDQUEUE_BUILD/fedclient:$PATH
  export FEDQUEUE_BIN=$FEDQUEUE_BUILD/fedclient
  # A rank that waits for another must not keep a core busy meanwhile.
  export OMPI_MCA_mpi_yield_when_idle=1
  local others
  others=$(printf ',other-%s' {1..59})
  fedclient data split --facilities "site-t$others" --alpha iid --output data
  rm -r data/other-*
  fedclient model init --model mlp --output initial.safetensors
}

# new_run NAME SETTING...: a run with the facility site-t and a server for it. Sets `run` and `server`.
new_run() {
  local name=$1
  shift
  run=$WORK/$name
  fedserver init "$run" --run "$name" --initial initial.safetensors --host 127.0.0.1 --listen \
    127.0.0.1 --port 0 --policy fedavg --local_steps "$ENDLESS" --lr_base 0.01 --rounds 1 \
    --round_timer_s 600 --heartbeat_s 0.5 --lease_s 60 --plan_retry_s 0.2 \
    --set training.batch_size=20 "$@"
  fedserver cert facility "$run" site-t --samples 1000
  start_server
}

start_server() {
  rm -f "$run/server/endpoint"
  fedserver run "$run" >>"$run/server.log" 2>&1 3>&- &
  server=$!
  until_true 30 test -s "$run/server/endpoint"
  url=$(<"$run/server/endpoint")
}

# write_site LINE...: the facility's settings; the lines come last, in the section [sbatch]. The
# variables reserve, snapshot and script count, if they are set.
write_site() {
  {
    cat <<END
kit = $run/facilities/site-t
server = $url
proxy = direct
dataset = $WORK/data/site-t
job_script = ${script:-$TEMPLATE}
state_dir = $run/agent
work_directory = $run
poll_interval = 200ms
settle_time = 2
reserve = ${reserve:-5}
snapshot = ${snapshot:-0}

[sbatch]
END
    [[ -n ${script:-} ]] || echo "ntasks = 2"
    printf '%s\n' "$@"
  } >"$run/site.ini"
}

# start_agent: in the background, its words in $run/agent.log; those of its earlier lives are kept
# beside it. Sets `agent`.
start_agent() {
  [[ ! -e $run/agent.log ]] || cat "$run/agent.log" >>"$run/agents-before.log"
  fedclient agent --config "$run/site.ini" >"$run/agent.log" 2>&1 3>&- &
  agent=$!
}

# exit_of PROCESS SECONDS: waits for a child of this shell. Sets `exit_code`.
exit_of() {
  until_true "$2" gone "$1"
  exit_code=0
  wait "$1" || exit_code=$?
}

gone() { ! grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$1/status"; }

kill_agent() {
  kill -KILL "$agent"
  exit_of "$agent" 10
}

agent_said() { grep -q -- "$1" "$run/agent.log"; }

# --- the run as its server shows it -----------------------------------------------------------------

# status_value EXPRESSION: of `status`, the run as JSON, in Python.
status_value() {
  fedserver status "$run" --format json 2>/dev/null | python3 -c "
import json, sys
status = json.load(sys.stdin)
site = status['facilities']['site-t']
rounds = [round['facilities']['site-t'] for round in status['rounds']]
print($1)"
}
status_is() { [[ $(status_value "$1") == "$2" ]]; }

# events KIND EXPRESSION: of every event of that kind, the expression over its `fact`.
events() {
  python3 -c "
import json, sys
for line in open('$run/metrics/events.jsonl'):
    event = json.loads(line)
    fact = event['fact']
    if event['kind'] == '$1': print($2)"
}

# --- the run's jobs -----------------------------------------------------------------------------------

# jobs_of_run [STATES]: ids of all jobs that were ever submitted for this run; ended ones stay listed.
jobs_of_run() {
  squeue -h --states="${1:-all}" -O JobID:20,Comment:200 | grep -F "fedqueue:$(basename "$run"):" |
    awk '{print $1}'
}
count_jobs() { jobs_of_run "$@" | wc -l; }
jobs_are() { [[ $(count_jobs "${@:2}") == "$1" ]]; }
one_job() { jobs_are 1 && job=$(jobs_of_run); }
live="PD,R,CG,CF,S,RQ"

# output_of JOB: what the agent's job wrote.
output_of() { cat "$run"/agent/jobs/*/slurm-"$1".out; }
output_has() { output_of "$1" 2>/dev/null | grep -q -- "$2"; }

# trains ATTEMPT: the server has heard of its first steps.
trains() { status_is "site.get('attempt') == '$1' and site['steps_done'] > 0" True; }

# let_finish JOB: the batch script hands this signal on to the ranks, as before the time limit.
let_finish() { scancel --batch --signal=USR1 "$1"; }

not() { if "$@"; then return 1; fi; }

exit_code_of() { scontrol -o show job "$1" | grep -oP '(?<= ExitCode=)\d+:\d+'; }
no_node_is_drained() { [[ -z $(sinfo -h -R) ]] && until_true 20 all_nodes_idle; }

# keep_busy: another's job on every node. Sets `blocker`.
keep_busy() {
  blocker=$(sbatch --parsable --nodes=2 --exclusive --output=/dev/null --wrap "sleep 300")
  until_true 30 has_state "$blocker" RUNNING
}

# --- afterwards -------------------------------------------------------------------------------------

# end_run: for teardown. Shows the logs of a test that failed.
end_run() {
  [[ -n ${run:-} ]] || return 0
  if [[ -z ${BATS_TEST_COMPLETED:-} ]]; then
    tail -n 40 "$run"/*.log "$run"/agent/jobs/*/*.out "$run"/*.out 2>/dev/null || true
    squeue --states=all || true
    fedserver status "$run" || true
    scontrol update nodename=ALL state=resume 2>/dev/null || true
  fi
  for process in ${agent:-} ${server:-}; do kill -KILL "$process" 2>/dev/null || true; done
  scancel --me
  until_true 30 all_nodes_idle
}
