#!/usr/bin/env bats
# What the plugin does to jobs that never asked for it: nothing, also when it is broken or missing.

load plugin_helpers

setup_file() {
  start_cluster "facility=site-t"
  cp "$PLUGSTACK" plugstack.saved
}
teardown_file() { stop_cluster; }
teardown() { cp "$WORK/plugstack.saved" "$PLUGSTACK"; }

# What differs between two jobs of the same kind in any case.
comparable() { grep -vE '^(SLURM_(JOB_?ID|TASK_PID|JOBID|JOB_START_TIME|JOB_END_TIME|NODELIST|JOB_NODELIST|SUBMIT_\w*|TOPOLOGY_ADDR|LAUNCH_NODE_\w*|STEP\w*|SRUN_\w*)|SLURMD_NODENAME|HOSTNAME|TMPDIR|_|SHLVL)=' "$1" | sort; }

@test "the environment of a job without options is the same with and without the plugin" {
  run_job with --nodelist=t-n1 --wrap "env; srun env"
  : >"$PLUGSTACK"
  run_job without --nodelist=t-n1 --wrap "env; srun env"
  diff <(comparable without) <(comparable with)
  run grep -E '^(FED_|.*SPANK)' with
  [ "$status" -ne 0 ]
}

@test "without options nothing is printed or logged" {
  run sbatch --parsable --output=/dev/null --wrap true
  [ "$status" -eq 0 ]
  [[ $output =~ ^[0-9]+$ ]]
  run srun --ntasks=1 true
  [ "$status" -eq 0 ]
  [[ $output != *fed* ]]
  run grep -i fedqueue: "$WORK"/s/t/log/slurmd-t-n1.log "$WORK"/s/t/log/slurmd-t-n2.log
  [ "$status" -ne 0 ]
}

@test "an argument of plugstack.conf that is not known fails no job" {
  sed 's/$/ colour=red/' plugstack.saved >"$PLUGSTACK"
  run_job plain --wrap env
  run_job opted --fed-run=demo --wrap env
  [ "$(value_of FED_RUN opted)" = demo ]
  until_true 10 all_nodes_idle
}

@test "a plugstack.conf that names a missing file fails no job" {
  echo "optional $WORK/gone/spank_fedqueue.so" >"$PLUGSTACK"
  run_job missing --wrap env
  until_true 10 all_nodes_idle
}

@test "a plugin built for another Slurm is refused by Slurm and fails no job" {
  local address bytes
  cp "$FEDQUEUE_PLUGIN" other.so
  address=$((16#$(nm -D "$FEDQUEUE_PLUGIN" | sed -n 's/ R plugin_version$//p')))
  bytes=$(od -An -tx1 -j "$address" -N 4 other.so | tr -d ' \n')
  [[ $bytes =~ 00$ ]]
  printf '\x01\x01\x63\x00' | dd of=other.so bs=1 seek="$address" conv=notrunc status=none
  echo "optional $WORK/other.so" >"$PLUGSTACK"
  run_job other --wrap env
  run sbatch --fed-run=demo --wrap true
  [ "$status" -ne 0 ]
  [[ $output == *"unrecognized option"* ]]
  until_true 10 all_nodes_idle
}

@test "a node without the plugin runs an opted-in job, only without its variables" {
  sed "s|^PlugStackConfig=.*|PlugStackConfig=$WORK/plugstack.saved|" "$SLURM_CONF" >submit.conf
  : >"$PLUGSTACK"
  SLURM_CONF=$WORK/submit.conf run_job nodeless --fed-run=demo --wrap env
  [ -z "$(value_of FED_RUN nodeless)" ]
  until_true 10 all_nodes_idle
}
