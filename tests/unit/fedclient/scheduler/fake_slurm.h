// A directory of scripted sbatch, squeue, scontrol, scancel and sacct that is the whole PATH of the
// scheduler under test. Each writes its arguments, one call per line, to `calls`.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/text.h"
#include "fedclient/scheduler/slurm.h"
#include "fedclient/scheduler/slurm_text.h"

namespace fedqueue::test {

class FakeSlurm : public testing::Test {
 protected:
  FakeSlurm() {
    std::string pattern = testing::TempDir() + "slurm-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    script("squeue", "");
    script("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
    script("scancel", "");
    script("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
    sbatch("echo 10001");
  }
  ~FakeSlurm() override { std::filesystem::remove_all(directory_); }

  void script(const std::string& name, const std::string& body) {
    const std::filesystem::path path = directory_ / name;
    std::ofstream(path) << "#!/bin/bash\nprintf '%s\\n' \"" << name << " $*\" >>'"
                        << (directory_ / "calls").string() << "'\n"
                        << body << "\n";
    std::filesystem::permissions(path, std::filesystem::perms(0755));
  }
  // As sbatch, but for --help.
  void sbatch(const std::string& body, const std::string& help = "  -c, --cpus-per-task") {
    script("sbatch", "if [ \"$1\" = --help ]; then echo '" + help + "'; exit 0; fi\n" + body);
  }
  // A line of squeue -O for a job of ours.
  static std::string line(const std::string& id, const std::string& state,
                          const std::string& comment, const std::string& reason = "None",
                          const std::string& start = "N/A", int restarts = 0) {
    char text[1024];
    std::snprintf(text, sizeof text, "%-32s%-20s%-12d%-24s%-64s%-300s", id.c_str(), state.c_str(),
                  restarts, start.c_str(), reason.c_str(), comment.c_str());
    return text;
  }
  static std::string ours(const std::string& token) { return "fedqueue:mnist:site-a:" + token; }
  void squeue_shows(const std::vector<std::string>& lines) {
    std::string body;
    for (const std::string& text : lines) body += "echo '" + text + "'\n";
    script("squeue", body);
  }

  std::vector<std::string> calls(const std::string& command) {
    std::vector<std::string> found;
    for (const std::string& call : split(read_file(directory_ / "calls").value_or(""), '\n')) {
      if (call.rfind(command + " ", 0) == 0) found.push_back(call);
    }
    return found;
  }

  SlurmSettings settings() {
    SlurmSettings settings;
    settings.run = RunId("mnist");
    settings.facility = FacilityId("site-a");
    settings.environment = {{"PATH", directory_.string() + ":/usr/bin:/bin"},
                            {"SLURM_CONF", "/etc/slurm/slurm.conf"},
                            {"SLURM_JOB_ID", "77"},
                            {"SQUEUE_STATES", "PD"}};
    settings.options = {"--partition=gpu"};
    return settings;
  }
  JobRequest request() {
    JobRequest request;
    request.token = "abc";
    request.comment = ours("abc");
    request.name = "fedqueue-mnist";
    request.script = "job.sbatch";
    request.output = "slurm-%j.out";
    request.time_limit_s = 601;
    request.environment["FEDQUEUE_PLAN_KEY"] = "abc";
    request.plugin_options["fed-run"] = "mnist";
    return request;
  }

  std::filesystem::path directory_;
};

}  // namespace fedqueue::test
