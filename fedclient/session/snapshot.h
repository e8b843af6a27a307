// Updates that lie on disk between training and the server's answer, so that a job that is killed
// leaves something the agent can send:
//
//   JOB_DIRECTORY/snapshots/UPDATE_ID.safetensors    the update
//   JOB_DIRECTORY/snapshots/UPDATE_ID.json           metadata and token, written last
//
// The agent gives JOB_DIRECTORY to the job as FEDQUEUE_JOB_DIRECTORY. A snapshot without its note
// is unfinished and ignored. The note holds the job's token and is readable by its owner alone.
//
// An update with control variates (SCAFFOLD) is not deleted when the server took it: it moves to
// the facility's CONTROLS/pending, from which the next job adds its differences to the facility's
// own control variates (fedclient/trainer/control_variates.h). The note says where that is.
//
// Thread safety: the functions may be called from any thread on distinct updates.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/protocol/messages.h"

namespace fedqueue {

inline constexpr const char* job_directory_variable = "FEDQUEUE_JOB_DIRECTORY";

struct Snapshot {
  UpdateId id;
  std::filesystem::path update;  // the safetensors file
  UpdateMetadata metadata;
  std::string token;
  std::filesystem::path controls;  // the facility's folder of control variates; empty: none
};

// Where the update's file belongs; the directory is made.
Result<std::filesystem::path> snapshot_file(const std::filesystem::path& job_directory,
                                            const UpdateId& id);

// Writes the note that makes the snapshot count. REQUIRES: the update's file is complete.
Status write_snapshot_note(const Snapshot& snapshot);

// Finished snapshots, oldest segment first. Notes that cannot be read are left out.
[[nodiscard]] std::vector<Snapshot> list_snapshots(const std::filesystem::path& job_directory);

// After the server's answer. Nothing happens if they are gone already.
void remove_snapshot(const Snapshot& snapshot);
// The same after an answer that says whether the update counts, now or in a later round.
void settle_snapshot(const Snapshot& snapshot, Disposition disposition);

}  // namespace fedqueue
