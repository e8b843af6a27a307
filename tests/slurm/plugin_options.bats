#!/usr/bin/env bats
# How the options get from the user to the tasks, and what happens to bad ones.

load plugin_helpers

setup_file() {
  start_cluster "facility=site-t min_poll_s=60"
  mkdir -p "$WORK/kit"
  touch "$WORK/train.ini"
}
teardown_file() { stop_cluster; }

@test "the options appear in the help of srun and sbatch" {
  for command in srun sbatch salloc; do
    run "$command" --help
    [ "$status" -eq 0 ]
    for option in run server facility kit config; do [[ $output == *"--fed-$option="* ]]; done
    [[ $output == *"[fedqueue]"* ]]
  done
}

@test "options of the command line reach the tasks" {
  run_job line --fed-run=demo --fed-server=https://fed.example.org:8443 --fed-facility=site-a \
    --fed-kit=kit --fed-config=train.ini --wrap env
  [ "$(value_of FED_RUN line)" = demo ]
  [ "$(value_of FED_SERVER line)" = https://fed.example.org:8443 ]
  [ "$(value_of FED_FACILITY line)" = site-a ]
  [ "$(value_of FED_KIT line)" = "$WORK/kit" ]
  [ "$(value_of FED_CONFIG line)" = "$WORK/train.ini" ]
  [ "$(value_of FED_POLL_MIN_S line)" = 60 ]
  [ -z "$(value_of FED_ERROR line)" ]
}

@test "#SBATCH lines count, and the command line wins over them" {
  printf '#!/bin/bash\n#SBATCH --fed-run=script --fed-server=https://script\nenv\n' >script.sbatch
  run_job lines script.sbatch
  [ "$(value_of FED_RUN lines)" = script ]
  [ "$(value_of FED_SERVER lines)" = https://script ]
  [ "$(value_of FED_FACILITY lines)" = site-t ]
  run_job wins --fed-run=typed script.sbatch
  [ "$(value_of FED_RUN wins)" = typed ]
  [ "$(value_of FED_SERVER wins)" = https://script ]
}

@test "however given and whatever --export says, the tasks find the same" {
  printf '#!/bin/bash\n#SBATCH --fed-run=same --fed-server=https://s\n/usr/bin/env\n' >same.sbatch
  printf '#!/bin/bash\n/usr/bin/env\n' >plain.sbatch
  local export_ way jobs=() number=0
  for export_ in "" ALL NONE NIL A=1 ALL,A=1; do
    for way in line script environment; do
      number=$((number + 1))
      local arguments=(--parsable --ntasks=1 --output="$WORK/same-$number")
      [[ -z $export_ ]] || arguments+=(--export="$export_")
      case $way in
        line) jobs+=("$(sbatch "${arguments[@]}" --fed-run=same --fed-server=https://s plain.sbatch)") ;;
        script) jobs+=("$(sbatch "${arguments[@]}" same.sbatch)") ;;
        environment)
          jobs+=("$(FEDQUEUE_RUN=same FEDQUEUE_SERVER=https://s sbatch "${arguments[@]}" plain.sbatch)")
          ;;
      esac
    done
  done
  [ "${#jobs[@]}" -eq 18 ]
  for number in "${!jobs[@]}"; do
    until_true 60 finished "${jobs[number]}"
    echo "job $((number + 1))"
    [ "$(value_of FED_RUN "same-$((number + 1))")" = same ]
    [ "$(value_of FED_SERVER "same-$((number + 1))")" = https://s ]
    [ "$(value_of FED_FACILITY "same-$((number + 1))")" = site-t ]
    equals_record "${jobs[number]}" "same-$((number + 1))"
  done
}

@test "steps find the same as the batch script, also under --export=NONE and in another folder" {
  cat >steps.sbatch <<'END'
#!/bin/bash
env | grep ^FED_ | sort >"$WORK_FOR_JOB/batch.env"
cd /
srun /usr/bin/env | grep ^FED_ | sort >"$WORK_FOR_JOB/step.env"
srun --export=NONE /usr/bin/env | grep ^FED_ | sort >"$WORK_FOR_JOB/step-none.env"
END
  WORK_FOR_JOB=$WORK run_job steps --fed-run=demo --fed-kit=kit steps.sbatch
  grep -q ^FED_QUEUE_WAIT_S= batch.env
  cmp batch.env step.env
  cmp batch.env step-none.env
}

@test "srun and salloc hand the options on without a batch script" {
  srun --ntasks=1 --fed-run=demo --fed-kit=kit env >srun.env
  [ "$(value_of FED_RUN srun.env)" = demo ]
  [ "$(value_of FED_KIT srun.env)" = "$WORK/kit" ]
  [ -n "$(value_of FED_QUEUE_WAIT_S srun.env)" ]
  # shellcheck disable=SC2016  # expanded in the allocation
  salloc --quiet --ntasks=1 --fed-run=demo --fed-kit=kit \
    bash -c 'cd / && srun env >"$WORK/salloc.env"'
  [ "$(value_of FED_KIT salloc.env)" = "$WORK/kit" ]
  [ -n "$(value_of FED_QUEUE_WAIT_S salloc.env)" ]
}

@test "a job submitted from within a job gets figures of its own" {
  cat >outer.sbatch <<'END'
#!/bin/bash
cd / && sbatch --parsable --ntasks=1 --output="$WORK_FOR_JOB/inner" --wrap env
END
  WORK_FOR_JOB=$WORK run_job outer --fed-run=demo --fed-kit=kit outer.sbatch
  local inner
  inner=$(cat outer)
  until_true 60 finished "$inner"
  [ "$(value_of FED_RUN inner)" = demo ]
  equals_record "$inner" inner
}

@test "sbatch, salloc and srun refuse bad options with a reason and submit nothing" {
  refused() { # MESSAGE ARGUMENTS...
    local message=$1
    shift
    echo "$*"
    run sbatch --output=/dev/null "$@" --wrap true
    [ "$status" -ne 0 ]
    [[ $output == *"fedqueue: --fed-"*"$message"* ]]
    [[ $output != *"Submitted"* ]]
    run srun --ntasks=1 "$@" true
    [ "$status" -ne 0 ]
    [[ $output == *"$message"* ]]
    run salloc --ntasks=1 "$@" true
    [ "$status" -ne 0 ]
    [[ $output == *"$message"* ]]
  }
  local before
  before=$(scontrol -o show job | wc -l)
  refused "'Demo' is not a name" --fed-run=Demo
  refused "does not begin with https://" --fed-run=demo --fed-server=http://plain
  refused "add --fed-run=NAME" --fed-server=https://host
  refused "No such file or directory" --fed-run=demo --fed-kit=/nowhere
  refused "is not a directory" --fed-run=demo --fed-kit=train.ini
  refused "is not a file" --fed-run=demo --fed-config=kit
  FEDQUEUE_RUN="Not A Name" refused "'Not A Name' is not a name"
  [ "$(scontrol -o show job | wc -l)" -eq "$before" ]
}

@test "a bad value smuggled past sbatch becomes FED_ERROR; the job runs and the nodes stay idle" {
  SLURM_SPANK_FED_RUN='Bad;Name' run_job smuggled --wrap env
  [[ $(value_of FED_ERROR smuggled) == "--fed-run: 'Bad;Name' is not a name"* ]]
  [ -z "$(value_of FED_RUN smuggled)" ]
  SLURM_SPANK_FED_KIT=/kit run_job no-run --wrap env
  [[ $(value_of FED_ERROR no-run) == *"add --fed-run=NAME"* ]]
  until_true 10 all_nodes_idle
}
