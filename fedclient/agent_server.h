// The agent's port to the server, over a Link: plans, ends, and what killed jobs left behind.
//
// Thread safety: as the Link's.
#pragma once

#include "fedclient/agent/loop.h"
#include "fedclient/link/link.h"

namespace fedqueue {

class LinkAgentServer : public AgentServer {
 public:
  LinkAgentServer(Link& link, Log log) : link_(link), log_(std::move(log)) {}

  Result<PlanAnswer> plan(const PlanRequest& request) override;
  Result<int> deliver(const std::filesystem::path& job_directory) override;
  Status end_job(const AttemptId& attempt, const JobEnd& end) override;

 private:
  Link& link_;
  Log log_;
};

}  // namespace fedqueue
