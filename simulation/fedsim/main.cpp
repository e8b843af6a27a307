#include "simulation/fedsim/commands.h"

int main(int argc, char** argv) {
  using namespace fedqueue;
  Program program;
  program.name = "fedsim";
  program.summary = "Federations across batch queues in virtual time";
  program.version = FEDQUEUE_VERSION;
  program.commands = {simulate_run_command(), compare_command(), scale_command(), check_command(),
                      replay_command()};
  return run_program(program, argc, argv);
}
