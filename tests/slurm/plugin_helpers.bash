# shellcheck shell=bash
# What the plugin_*.bats files share: a sandbox of one cluster per file, and jobs in it.
: "${FEDQUEUE_SANDBOX:=$BATS_TEST_DIRNAME/../../batch_scripts/sandbox}"
: "${FEDQUEUE_PLUGIN:?set it to the path of spank_fedqueue.so}"

# start_cluster [PLUGIN-ARGUMENTS]: for setup_file. Jobs write into $WORK.
start_cluster() {
  unset "${!SLURM_@}" "${!SPANK_@}" "${!FED_@}" FEDQUEUE_RUN FEDQUEUE_SERVER FEDQUEUE_FACILITY \
    FEDQUEUE_KIT FEDQUEUE_CONFIG SBATCH_EXPORT
  WORK=$(mktemp -d "${TMPDIR:-/tmp}/fqt-XXXXXX")
  export WORK
  "$FEDQUEUE_SANDBOX/up" --dir "$WORK/s" --names t --base-port auto --plugin "$FEDQUEUE_PLUGIN" \
    --plugin-args "${1:-}"
  eval "$("$FEDQUEUE_SANDBOX/env" --dir "$WORK/s" t)"
  PLUGSTACK=$WORK/s/t/etc/plugstack.conf
  export PLUGSTACK
  cd "$WORK" || return 1
}

stop_cluster() {
  if [[ -n ${WORK:-} ]]; then
    "$FEDQUEUE_SANDBOX/down" --dir "$WORK/s"
    rm -rf -- "$WORK"
  fi
}

# until_true SECONDS COMMAND...
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || { echo "not within the time: $*" && return 1; }
    sleep 0.1
  done
}

state_of() { scontrol -o show job "$1" | grep -oP '(?<=JobState=)\w+'; }
has_state() { [[ " ${*:2} " == *" $(state_of "$1") "* ]]; }
finished() { has_state "$1" COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL; }

# run_job NAME ARGUMENTS...: submits, waits for its end; output in $WORK/NAME, the id in $job.
run_job() {
  local name=$1
  shift
  job=$(sbatch --parsable --ntasks=1 --output="$WORK/$name" "$@")
  until_true 60 finished "$job"
  if [[ $(state_of "$job") != COMPLETED ]]; then
    scontrol show job "$job"
    cat "$WORK/$name"
    return 1
  fi
}

# value_of VARIABLE NAME: what the job that wrote $WORK/NAME (by env) had in VARIABLE.
value_of() { sed -n "s/^$1=//p" "$WORK/$2"; }

# slurm_time JOB FIELD: a time of the scheduler's own record, as seconds since the epoch.
# Asked for the base id of an array, scontrol prints all its tasks.
slurm_time() {
  date -d "$(scontrol -o show job "$1" | grep "^JobId=$1 " | grep -oP "(?<= $2=)\S+")" +%s
}

# equals_record JOB NAME: the figures the job was given are those of the scheduler.
equals_record() {
  local submit eligible start
  submit=$(slurm_time "$1" SubmitTime)
  eligible=$(slurm_time "$1" EligibleTime)
  start=$(slurm_time "$1" StartTime)
  [[ $(value_of FED_SUBMIT_TIME "$2") == "$submit" ]]
  [[ $(value_of FED_ELIGIBLE_TIME "$2") == "$eligible" ]]
  [[ $(value_of FED_START_TIME "$2") == "$start" ]]
  [[ $(value_of FED_QUEUE_WAIT_S "$2") == $((start - (eligible > submit ? eligible : submit))) ]]
  [[ $(value_of FED_JOB_ID "$2") == "$1" ]]
}

all_nodes_idle() { [[ $(sinfo -h -p main -t idle -o %D) == 2 ]]; }

# controller_questions: how often the controller was asked for one job's record.
controller_questions() {
  local count
  count=$(sdiag | grep -oP 'REQUEST_JOB_INFO_SINGLE\s+\(\s*\d+\)\s+count:\K\d+' | head -n 1)
  echo "${count:-0}"
}
