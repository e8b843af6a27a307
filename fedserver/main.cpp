#include "core/config/command.h"
#include "fedserver/commands/commands.h"

int main(int argc, char** argv) {
  using namespace fedqueue;
  Program program;
  program.name = "fedserver";
  program.summary = "The aggregation server of a federated training run";
  program.version = FEDQUEUE_VERSION;
  program.commands = {init_command(),  run_command(),  status_command(),
                      watch_command(), stop_command(), export_command()};
  for (Command& command : cert_commands()) program.commands.push_back(std::move(command));
  for (Command& command : config_commands("fedserver", run_options())) {
    command.arguments = {directory_argument()};
    command.user_file = settings_file;
    if (command.verb == "config check") {
      // What each value may be was checked; whether they fit together is checked here.
      command.run = [check = command.run](const Settings& settings) -> Result<int> {
        const Result<EngineConfig> config = engine_config(settings);
        if (!config) return config.error();
        return check(settings);
      };
    }
    program.commands.push_back(std::move(command));
  }
  return run_program(program, argc, argv);
}
