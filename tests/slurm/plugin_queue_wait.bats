#!/usr/bin/env bats
# The wait that the plugin hands to a job is the one the scheduler has on record.

load plugin_helpers

setup_file() { start_cluster; }
teardown_file() { stop_cluster; }

clock_past() { (($(date +%s) > $1)); }

@test "a job held and released waits from its release" {
  local id submit
  id=$(sbatch --parsable --hold --ntasks=1 --output=held --fed-run=demo --time=7 --wrap env)
  submit=$(slurm_time "$id" SubmitTime)
  until_true 10 clock_past $((submit + 2))
  scontrol release "$id"
  until_true 60 finished "$id"
  equals_record "$id" held
  (($(value_of FED_ELIGIBLE_TIME held) >= submit + 2))
  [ "$(value_of FED_TIME_LIMIT_S held)" -eq 420 ]
  [ "$(value_of FED_END_TIME held)" -eq $(($(value_of FED_START_TIME held) + 420)) ]
  [ "$(value_of FED_RESTART_COUNT held)" -eq 0 ]
}

@test "a job with --begin waits from its begin" {
  local id
  id=$(sbatch --parsable --begin=now+3 --ntasks=1 --output=begin --fed-run=demo --wrap env)
  until_true 60 finished "$id"
  equals_record "$id" begin
  (($(value_of FED_ELIGIBLE_TIME begin) >= $(value_of FED_SUBMIT_TIME begin) + 3))
}

@test "a job behind others has waited as long as they ran" {
  local blocker id
  blocker=$(sbatch --parsable --nodes=2 --exclusive --output=/dev/null --wrap "sleep 3")
  until_true 30 has_state "$blocker" RUNNING
  id=$(sbatch --parsable --ntasks=2 --output=behind --fed-run=demo --wrap env)
  until_true 60 finished "$id"
  equals_record "$id" behind
  (($(value_of FED_QUEUE_WAIT_S behind) >= 1))
}

@test "every task of an array has its own record" {
  local base task id
  base=$(sbatch --parsable --array=0-3%2 --ntasks=1 --output="$WORK/array-%a" --fed-run=demo \
    --wrap "env; sleep 1")
  for task in 0 1 2 3; do
    until_true 60 finished "${base}_$task"
    id=$(scontrol -o show job "${base}_$task" | grep -oP '^JobId=\K\d+')
    equals_record "$id" "array-$task"
  done
}

@test "a requeued job counts anew" {
  cat >requeue.sbatch <<'END'
#!/bin/bash
env >"launch-${SLURM_RESTART_COUNT:-0}"
[[ ${SLURM_RESTART_COUNT:-0} -ge 1 ]] || sleep 60
END
  local id
  id=$(sbatch --parsable --requeue --ntasks=1 --output=/dev/null --fed-run=demo requeue.sbatch)
  until_true 30 test -s launch-0
  scontrol requeue "$id"
  until_true 90 test -s launch-1
  until_true 60 finished "$id"
  [ "$(value_of FED_RESTART_COUNT launch-0)" -eq 0 ]
  [ "$(value_of FED_RESTART_COUNT launch-1)" -eq 1 ]
  (($(value_of FED_SUBMIT_TIME launch-1) > $(value_of FED_SUBMIT_TIME launch-0)))
  equals_record "$id" launch-1
}

@test "the controller is asked once per job, however many steps it has" {
  local before id
  before=$(controller_questions)
  id=$(sbatch --parsable --ntasks=1 --output=/dev/null --fed-run=demo \
    --wrap "for i in 1 2 3; do srun true; done")
  # The squeue and scontrol of a test would count too, so the job's end is seen in the node states.
  until_true 30 in_node_log "$id.2"
  until_true 30 all_nodes_idle
  [ "$(controller_questions)" -eq $((before + 1)) ]
}

in_node_log() { grep -q "\[$1\]" "$WORK"/s/t/log/slurmd-*.log; }

@test "with record=no the controller is not asked and the options still arrive" {
  cp "$PLUGSTACK" plugstack.saved
  sed -i 's/$/ record=no/' "$PLUGSTACK"
  run_job norecord --fed-run=demo --wrap env
  cp plugstack.saved "$PLUGSTACK"
  [ "$(value_of FED_RUN norecord)" = demo ]
  # shellcheck disable=SC2154  # set by run_job
  [ "$(value_of FED_JOB_ID norecord)" = "$job" ]
  [ -z "$(value_of FED_QUEUE_WAIT_S norecord)" ]
}
