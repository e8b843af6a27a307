// Updates that lie on disk between training and the server's answer, so that a job that is killed
// leaves something the agent can send:
//
//   JOB_DIRECTORY/snapshots/UPDATE_ID.safetensors    the update
//   JOB_DIRECTORY/snapshots/UPDATE_ID.json           metadata and token, written last
//
// The agent gives JOB_DIRECTORY to the job as FEDQUEUE_JOB_DIRECTORY. A snapshot without its note
// is unfinished and ignored. The note holds the job's token and is readable by its owner alone.
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

}  // namespace fedqueue
