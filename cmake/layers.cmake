# Which library may use which, in an order in which every arrow points up this list.
set(FEDQUEUE_LAYERS
  base tensor protocol config kit
  optimizer queue planning weighting policy reduce
  engine driver desk journal blobs reducer certificates telemetry http
  session agent link scheduler recipe data collective models trainer
  clock simulated world check queues statistics training experiment report
  scale federation)

set(FEDQUEUE_MAY_USE_base "")
set(FEDQUEUE_MAY_USE_tensor base)
set(FEDQUEUE_MAY_USE_protocol base)
set(FEDQUEUE_MAY_USE_config base)
set(FEDQUEUE_MAY_USE_kit base config)

set(FEDQUEUE_MAY_USE_optimizer base)
set(FEDQUEUE_MAY_USE_queue base)
set(FEDQUEUE_MAY_USE_planning base queue)
set(FEDQUEUE_MAY_USE_weighting base queue)
set(FEDQUEUE_MAY_USE_policy base optimizer queue planning weighting)
set(FEDQUEUE_MAY_USE_reduce base tensor optimizer)

set(FEDQUEUE_MAY_USE_engine base protocol policy optimizer planning weighting queue)
set(FEDQUEUE_MAY_USE_driver base protocol engine)
set(FEDQUEUE_MAY_USE_desk base protocol engine)
set(FEDQUEUE_MAY_USE_journal base protocol engine driver)
set(FEDQUEUE_MAY_USE_blobs base tensor engine driver)
set(FEDQUEUE_MAY_USE_reducer base tensor reduce optimizer engine driver blobs)
set(FEDQUEUE_MAY_USE_certificates base kit)
set(FEDQUEUE_MAY_USE_telemetry base protocol engine driver)
set(FEDQUEUE_MAY_USE_http base kit protocol engine driver desk blobs certificates telemetry)

set(FEDQUEUE_MAY_USE_session base protocol)
set(FEDQUEUE_MAY_USE_agent base protocol planning queue)
set(FEDQUEUE_MAY_USE_link base config kit protocol session)
set(FEDQUEUE_MAY_USE_scheduler base agent)
set(FEDQUEUE_MAY_USE_collective base)
set(FEDQUEUE_MAY_USE_recipe base config)
set(FEDQUEUE_MAY_USE_data base config tensor recipe)
set(FEDQUEUE_MAY_USE_models base data tensor)
set(FEDQUEUE_MAY_USE_trainer base tensor protocol session collective data recipe models)

# Simulation: the same code on virtual time.
set(FEDQUEUE_MAY_USE_clock base)
set(FEDQUEUE_MAY_USE_simulated base protocol tensor optimizer queue planning weighting policy)
set(FEDQUEUE_MAY_USE_world base protocol optimizer clock simulated)
set(FEDQUEUE_MAY_USE_check base protocol optimizer policy clock simulated world)
set(FEDQUEUE_MAY_USE_queues base)
set(FEDQUEUE_MAY_USE_statistics base)
set(FEDQUEUE_MAY_USE_training base tensor data recipe models trainer)
set(FEDQUEUE_MAY_USE_experiment base config statistics)
set(FEDQUEUE_MAY_USE_report base statistics experiment)
set(FEDQUEUE_MAY_USE_scale base protocol policy optimizer simulated)
set(FEDQUEUE_MAY_USE_federation base tensor protocol optimizer policy clock queues statistics
  experiment world)
