#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "fedclient/commands.h"

namespace fedqueue {
namespace {

constexpr const char* trainer_program = "fedclient-train";

// Beside this program, where it is installed, or where FEDQUEUE_LIBEXEC says.
std::vector<std::filesystem::path> places() {
  std::vector<std::filesystem::path> found;
  const char* said = std::getenv("FEDQUEUE_LIBEXEC");
  if (said != nullptr && said[0] != 0) found.emplace_back(said);
  std::error_code failure;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (!failure) {
    found.push_back(self.parent_path());
    found.push_back(self.parent_path().parent_path() / "libexec" / "fedqueue");
    found.push_back(self.parent_path() / "trainer");  // the build directory
  }
  return found;
}

Command trainer_command(const char* verb, const char* summary) {
  Command command;
  command.verb = verb;
  command.summary = summary;
  command.run = [](const Settings&) -> Result<int> {
    return Error{Code::internal, "this verb belongs to fedclient-train", ""};
  };
  return command;
}

}  // namespace

std::vector<Command> trainer_commands() {
  return {trainer_command("train", "Train inside a job; see fedclient train --help"),
          trainer_command("evaluate", "Evaluate a version; see fedclient evaluate --help"),
          trainer_command("model", "Make an initial model; see fedclient model --help")};
}

bool is_trainer_verb(const std::string& verb) {
  return verb == "train" || verb == "evaluate" || verb == "model";
}

int become_trainer(int argc, char** argv) {
  std::string looked;
  for (const std::filesystem::path& place : places()) {
    const std::filesystem::path program = place / trainer_program;
    looked += (looked.empty() ? "" : ", ") + place.string();
    if (::access(program.c_str(), X_OK) != 0) continue;
    std::vector<char*> arguments(argv, argv + argc);
    arguments.push_back(nullptr);
    ::execv(program.c_str(), arguments.data());
    std::cerr << "fedclient " << argv[1] << ": cannot start '" << program.string()
              << "': " << std::strerror(errno) << '\n';
    return static_cast<int>(Code::usage);
  }
  std::cerr << "fedclient " << argv[1] << ": the training side is not installed: no "
            << trainer_program << " in " << looked << "\n  Build it with LibTorch "
            << "(-DFEDQUEUE_BUILD_TRAINER=ON), or name its directory with FEDQUEUE_LIBEXEC.\n";
  return static_cast<int>(Code::usage);
}

}  // namespace fedqueue
