#include "fedclient/agent_server.h"

#include "fedclient/session/snapshot.h"

namespace fedqueue {
namespace {

// One job's leavings must not keep the agent from its other work for long; it comes back to them.
const RetryPolicy delivery_retry{std::chrono::milliseconds(500), std::chrono::seconds(10),
                                 std::chrono::seconds(60)};

}  // namespace

Result<PlanAnswer> LinkAgentServer::plan(const PlanRequest& request) { return link_.plan(request); }

Status LinkAgentServer::end_job(const AttemptId& attempt, const JobEnd& end) {
  return link_.end_job(attempt, end);
}

Result<int> LinkAgentServer::deliver(const std::filesystem::path& job_directory) {
  int sent = 0;
  for (const Snapshot& snapshot : list_snapshots(job_directory)) {
    Result<std::optional<UpdateAnswer>> known = link_.update_answer(snapshot.id);
    if (!known && may_pass(known.error().code)) return known.error();
    if (known && *known) {  // the job sent it and could not tidy up any more
      settle_snapshot(snapshot, (*known)->disposition);
      continue;
    }
    Result<UpdateAnswer> answer = link_.upload_update(
        snapshot.id, snapshot.update, snapshot.metadata, snapshot.token, delivery_retry);
    if (answer) {
      if (answer->disposition != Disposition::rejected) ++sent;
      log_.info("sent what a job left", {{"update", snapshot.id},
                                         {"disposition", to_text(answer->disposition)},
                                         {"reason", answer->reason},
                                         {"steps", snapshot.metadata.steps_run}});
    } else if (may_pass(answer.error().code)) {
      return answer.error();
    } else {
      log_.warning("the server does not want what a job left",
                   {{"update", snapshot.id}, {"cause", answer.error().message}});
    }
    settle_snapshot(snapshot, answer ? answer->disposition : Disposition::rejected);
  }
  return sent;
}

}  // namespace fedqueue
