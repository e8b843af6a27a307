// The training side of fedclient: read the configuration, run the verb.
#include "core/config/command.h"
#include "fedclient/data/verbs.h"
#include "fedclient/trainer/commands.h"

int main(int argc, char** argv) {
  using namespace fedqueue;
  Program program;
  program.name = "fedclient";
  program.summary = "Train for a federated run: the verbs that need LibTorch";
  program.version = FEDQUEUE_VERSION;
  // What the agent hands to its jobs is no setting.
  program.foreign_names = {"job_directory", "plan_key"};
  for (const auto& commands :
       {model_commands(), data_commands(), train_commands(), evaluate_commands()}) {
    program.commands.insert(program.commands.end(), commands.begin(), commands.end());
  }
  return run_program(program, argc, argv);
}
