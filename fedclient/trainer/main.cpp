// The training side of fedclient: read the configuration, run the verb.
#include <malloc.h>

#include <cstdlib>

#include "core/config/command.h"
#include "fedclient/data/verbs.h"
#include "fedclient/options.h"
#include "fedclient/trainer/commands.h"

namespace {

// Every step needs the same tensors again. Memory that goes back to the kernel in between has to be
// cleared and mapped anew, which takes a tenth of a step of a transformer.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kAlways = 1 << 30;
  ::mallopt(M_MMAP_THRESHOLD, kAlways);
  ::mallopt(M_TRIM_THRESHOLD, kAlways);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  using namespace fedqueue;
  keep_freed_memory();
  // What the plugin handed to the job is the job's own, and holds over the submitter's environment.
  if (const char* file = std::getenv("FED_CONFIG"); file != nullptr && file[0] != '\0') {
    ::setenv("FEDQUEUE_CONFIG", file, 1);
  }
  Program program;
  program.name = "fedclient";
  program.summary = "Train for a federated run: the verbs that need LibTorch";
  program.version = FEDQUEUE_VERSION;
  // The agent's settings stand in the same file, and what it and the batch script hand over is
  // none.
  program.foreign_names = agent_setting_names();
  for (const char* name :
       {"job_directory", "plan_key", "bin", "launcher", "oversubscribe", "mpi_btl", "libexec"}) {
    program.foreign_names.emplace_back(name);
  }
  for (const auto& commands :
       {model_commands(), data_commands(), train_commands(), evaluate_commands()}) {
    program.commands.insert(program.commands.end(), commands.begin(), commands.end());
  }
  return run_program(program, argc, argv);
}
