// The facility's side of a federated run: read the configuration, run the verb.
#include "core/config/command.h"
#include "core/kit/verbs.h"
#include "fedclient/commands.h"
#include "fedclient/data/verbs.h"
#include "fedclient/settings.h"

int main(int argc, char** argv) {
  using namespace fedqueue;
  // Those verbs have a program of their own, so that an agent on a login node needs no LibTorch.
  if (argc > 1 && is_trainer_verb(argv[1])) return become_trainer(argc, argv);
  Program program;
  program.name = "fedclient";
  program.summary = "A facility's part in a federated training run";
  program.version = FEDQUEUE_VERSION;
  program.foreign_names = trainer_setting_names();
  program.commands = {agent_command(), submit_command(), status_command()};
  for (const auto& commands : {trainer_commands(), data_commands(), kit_commands("fedclient"),
                               config_commands("fedclient", configuration_options())}) {
    program.commands.insert(program.commands.end(), commands.begin(), commands.end());
  }
  return run_program(program, argc, argv);
}
