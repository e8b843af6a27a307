// Points in the code that only the simulator's build of it has: marks and planted bugs. In every
// other build both macros are constants and leave no instruction behind.
//
//   FEDQUEUE_MARK(lease_expired);               this rare branch was reached
//   if (FEDQUEUE_PLANTED(no_lease)) return;     the bug is there while the simulator has planted it
//
// The simulator's suite fails when a mark is never reached over its seeds, since faults that do not
// lead into a branch say nothing about it; and it fails when a planted bug is not found, since
// checks that find no bug are none. docs/simulation.md says how to add one.
//
// Thread safety: counters and the planted bug are of the calling thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fedqueue::points {

// One line per rare branch: name, and what it means when it was reached.
#define FEDQUEUE_MARKS(X)                                                                    \
  /* engine */                                                                               \
  X(attempt_fenced, "a job was started again, and its older launch lost its rights")         \
  X(attempt_relieved, "a newer job of the facility took over")                               \
  X(attempt_relaunched, "a second rank 0 of the same job took over")                         \
  X(launch_refused, "an older launch came after a newer one")                                \
  X(lease_expired, "a job fell silent and lost its place")                                   \
  X(job_never_registered, "a job ended that had never registered")                           \
  X(plan_repeated, "the answer to a plan's request was lost and given again")                \
  X(round_timed_out, "a round's timer fired with too little to close it")                    \
  X(round_closed_by_timer, "a round closed without all that it expected")                    \
  X(run_stalled, "the run said that it is stalled")                                          \
  X(reduce_failed, "a reduction failed")                                                     \
  X(reduce_retried, "a failed reduction was started again")                                  \
  X(reduce_repeated, "a reduction was reported that was published already")                  \
  X(update_repeated, "an update came again and got the same answer")                         \
  X(update_late, "an update came too late for its round")                                    \
  X(update_rejected, "an update was refused for what it holds")                              \
  X(update_while_reducing, "an update came between the close of a round and its publishing") \
  X(update_without_segment, "an update came for a segment that was not given")               \
  X(update_of_other_launch, "an update came with another launch's token")                    \
  X(update_of_fenced, "an update came from a fenced launch")                                 \
  X(update_wrong_base, "an update claimed another base than its segment's")                  \
  X(update_too_many_steps, "an update claimed more steps than were given")                   \
  X(update_of_other_facility, "an update came from another facility than its own")           \
  X(updates_dropped, "waiting updates grew too old")                                         \
  X(models_pruned, "old versions were removed")                                              \
  X(run_ended, "an event came after the end of the run")                                     \
  /* driver */                                                                               \
  X(driver_replayed, "a restarted server replayed its journal")                              \
  X(driver_owed_reduction, "a restarted server owed a reduction")                            \
  X(driver_busy, "an event found the queue full")                                            \
  /* blobs */                                                                                \
  X(upload_resumed, "an upload went on where it was cut")                                    \
  X(upload_overlapped, "an upload repeated bytes that were there")                           \
  X(upload_beyond, "an upload went on beyond what was there")                                \
  X(upload_other_file, "an upload of another file replaced a part")                          \
  X(upload_wrong_digest, "an upload arrived with other bytes than announced")                \
  X(upload_part_found, "a restarted server found a part of an upload")                       \
  X(upload_hashed_again, "the part of an earlier server was read for its checksum")          \
  X(upload_reopened, "a whole update became a part again")                                   \
  X(upload_not_suspended, "a cut upload could not be made durable")                          \
  X(upload_write_failed, "the disk refused bytes of an upload")                              \
  X(blobs_full, "an upload did not fit")                                                     \
  X(blobs_swept, "a restarted server removed files that nothing refers to")                  \
  /* protocol */                                                                             \
  X(upload_tried_again, "the client probed again after a failure")                           \
  X(upload_given_up, "the client gave an upload up")                                         \
  /* session */                                                                              \
  X(session_base_lost, "the base of a segment was gone")                                     \
  X(session_fenced, "a session learnt that it was replaced")                                 \
  X(session_told_to_finish, "a session was asked to finish")                                 \
  X(session_interrupted, "a session was interrupted by a signal")                            \
  X(session_out_of_time, "a session had no time left")                                       \
  X(session_gave_up, "a session gave up after failures that might have passed")              \
  X(session_waited, "a session waited for work")                                             \
  /* agent */                                                                                \
  X(agent_found_by_token, "a job was found whose submission had no answer")                  \
  X(agent_submits_again, "a submission was repeated after looking for it in vain")           \
  X(agent_limit, "the site's limits refused a job for now")                                  \
  X(agent_surplus, "a second job of one token was found")                                    \
  X(agent_adopted, "a job was found that the agent had forgotten")                           \
  X(agent_job_missing, "the listing did not show a job")                                     \
  X(agent_job_vanished, "a job was given up that the scheduler no longer knew")              \
  X(agent_job_alive_again, "a job was alive that the listing had not shown")                 \
  X(agent_failures, "the agent waited since jobs had failed")                                \
  X(agent_ended_by_run, "the agent ended with the run")                                      \
  X(agent_settle_failed, "an ended job could not be settled with the server")

// One line per planted bug: name, and what it does.
#define FEDQUEUE_PLANTED_BUGS(X)                                                               \
  X(counts_twice, "engine: what a round has counted counts in the next one, too")              \
  X(timer_not_armed_again, "engine: a timer that fired in vain is not armed again")            \
  X(lease_never_ends, "engine: a job that fell silent keeps its place")                        \
  X(restart_not_fenced, "engine: a restarted job does not fence its older launch")             \
  X(token_not_checked, "engine: an update of another launch's token is taken")                 \
  X(steps_not_checked, "engine: an update may claim more steps than were given")               \
  X(owner_not_checked, "engine: a facility may send another's update")                         \
  X(age_forgotten, "engine: waiting updates do not grow older")                                \
  X(fact_not_journalled, "engine: a job's lost place is not written to the journal")           \
  X(model_pruned_too_early, "engine: a version is removed that a segment starts from")         \
  X(reduction_forgotten, "engine: a restarted server does not go on with a reduction")         \
  X(outdated_kept, "engine: what is too old for any round keeps its facility waiting")         \
  X(consumed_file_kept, "engine: the file of an update that has counted stays")                \
  X(models_kept_for_ever, "engine: old versions are never removed")                            \
  X(answers_kept_for_ever, "engine: answers that nobody can ask for are never forgotten")      \
  X(controls_by_participants, "engine: control variates are averaged over a round's updates")  \
  X(queue_without_bound, "driver: events are queued without a bound")                          \
  X(reply_before_commit, "driver: replies leave before the facts are durable")                 \
  X(update_not_synced, "blobs: an update is acknowledged before it is durable")                \
  X(name_not_synced, "blobs: an update's name is acknowledged before it is durable")           \
  X(offset_of_unsynced, "blobs: bytes that are not durable are reported as such")              \
  X(room_promised_for_ever, "blobs: an upload that was cut keeps the room it was promised")    \
  X(digest_not_checked, "blobs: the checksum of an upload is not compared")                    \
  X(upload_from_wrong_offset, "protocol: an upload goes on one byte too far")                  \
  X(session_ignores_fence, "session: a replaced session goes on")                              \
  X(session_never_retries, "session: the first failure that may pass ends the job")            \
  X(agent_submits_blindly, "agent: a submission without an answer is repeated without a look") \
  X(agent_forgets_intent, "agent: a job is submitted before its token is durable")             \
  X(agent_gives_up_unseen, "agent: a job that the listing misses once counts as gone")

#define FEDQUEUE_NAME_POINT(name, text) name,
enum class Mark : std::size_t { FEDQUEUE_MARKS(FEDQUEUE_NAME_POINT) count };
enum class Bug : std::size_t { none, FEDQUEUE_PLANTED_BUGS(FEDQUEUE_NAME_POINT) count };
#undef FEDQUEUE_NAME_POINT

inline constexpr std::size_t mark_count = static_cast<std::size_t>(Mark::count);
inline constexpr std::size_t bug_count = static_cast<std::size_t>(Bug::count);  // with `none`

using MarkCounts = std::array<std::uint64_t, mark_count>;

// Of this thread, since the last reset.
[[nodiscard]] const MarkCounts& marks();
void reset_marks();
void reach(Mark mark);

// Of this thread; none by default.
void plant(Bug bug);
[[nodiscard]] bool planted(Bug bug);

[[nodiscard]] std::string_view name_of(Mark mark);
[[nodiscard]] std::string_view meaning_of(Mark mark);
[[nodiscard]] std::string_view name_of(Bug bug);
[[nodiscard]] std::string_view meaning_of(Bug bug);

}  // namespace fedqueue::points

#ifdef FEDQUEUE_SIMULATION
#define FEDQUEUE_MARK(name) ::fedqueue::points::reach(::fedqueue::points::Mark::name)
#define FEDQUEUE_PLANTED(name) ::fedqueue::points::planted(::fedqueue::points::Bug::name)
#else
#define FEDQUEUE_MARK(name) static_cast<void>(0)
#define FEDQUEUE_PLANTED(name) false
#endif
