// Keeps C++ on our side of Slurm's C interface.
//
// A hook runs inside sbatch, srun or slurmstepd. An exception that crossed the border would end
// that process: a slurmstepd that dies so leaves its job to be requeued and run twice. So nothing
// escapes from guarded(): it logs and returns 0. A refusal that is meant (a bad option at submit
// time) is the body's own return value. Thread safety: that of the body.
#pragma once

#include <exception>

namespace fedqueue::plugin {

template <typename LogError, typename Body>
int guarded(const char* hook, LogError&& log_error, Body&& body) noexcept {
  const auto report = [&](const char* why) {
    try {
      log_error(hook, why);
    } catch (...) {
      // If even the message fails there is nobody left to tell.
    }
  };
  try {
    return body();
  } catch (const std::exception& error) {
    report(error.what());
  } catch (...) {
    report("unknown exception");
  }
  return 0;
}

}  // namespace fedqueue::plugin
