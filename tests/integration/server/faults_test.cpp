// Bad input and bad luck on the real server: each gets one clear sentence and its code, and the
// round goes on.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "core/tensor/file.h"
#include "run_fixture.h"

namespace fedqueue::test {
namespace {

const std::vector<std::string> one_round = {"--policy",       "fedavg", "--rounds",  "1",
                                            "--plan_retry_s", "0.05",   "--lease_s", "600"};

// A facility that has registered and downloaded its base, and what it would send.
struct Trained {
  std::unique_ptr<Link> link;
  JobAnswer job;
  AttemptId attempt{"1.0"};
  UpdateId id;
  std::filesystem::path base;
  std::filesystem::path update;
  UpdateMetadata metadata;
};

Trained trained(const ServerRun& run, const std::string& facility) {
  Trained state;
  state.link = run.link(facility);
  JobRegistration registration;
  registration.attempt = state.attempt;
  registration.nonce = "n";
  registration.queue.queue_wait_s = 1;
  const Result<JobAnswer> job = state.link->enrol(registration);
  EXPECT_TRUE(job) << (job ? "" : job.error().message);
  state.job = *job;
  state.base = run.scratch() / (facility + ".base");
  EXPECT_TRUE(state.link->download_model(state.job.next.segment.base, state.base));
  state.update = run.scratch() / (facility + ".update");
  state.metadata = write_update(state.base, state.update, facility, state.job.next.segment);
  state.id = make_update_id(FacilityId(facility), state.attempt, 1);
  return state;
}

Result<UpdateAnswer> send(const ServerRun& run, Trained& state) {
  return state.link->upload_update(state.id, state.update, state.metadata, state.job.token,
                                   run.link_config("alpha").retry);
}

// Overwrites one float of the update's first float tensor.
void poison(const std::filesystem::path& path, float value) {
  const Result<tensor::Reader> reader = tensor::Reader::open(path);
  ASSERT_TRUE(reader);
  const tensor::TensorInfo* info = reader->manifest().find("fc.weight");
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(reader->manifest().header_bytes + info->begin + 12));
  file.write(reinterpret_cast<const char*>(&value), sizeof value);
}

void expect_rejected(const Result<UpdateAnswer>& answer, Code code, const std::string& word) {
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->disposition, Disposition::rejected);
  EXPECT_EQ(answer->code, code) << answer->reason;
  EXPECT_NE(answer->reason.find(word), std::string::npos) << answer->reason;
}

void expect_refused(const Result<UpdateAnswer>& answer, Code code) {
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, code) << answer.error().message;
  EXPECT_FALSE(answer.error().message.empty());
}

// The round still ends with bravo's update alone once alpha's job is gone.
void expect_round_goes_on(ServerRun& run, Trained& alpha) {
  (void)alpha.link->end_job(alpha.attempt, JobEnd{"", "FAILED", "gave up"});
  PlayedFacility bravo(run, "bravo");
  for (int i = 0; i < 400 && bravo.step(); ++i) {
  }
  const std::string shown = run.server({"status"}, {"--format", "json"}).output;
  const auto status = nlohmann::json::parse(shown, nullptr, false);
  ASSERT_TRUE(status.is_object()) << shown;
  EXPECT_EQ(status.value("version", -1), 1);
}

TEST(Faults, AnUpdateWithNaNIsRejectedByNameAndTheRoundGoesOn) {
  ServerRun run(one_round);
  run.start();
  Trained alpha = trained(run, "alpha");
  poison(alpha.update, std::numeric_limits<float>::quiet_NaN());
  expect_rejected(send(run, alpha), Code::not_finite, "fc.weight");
  expect_round_goes_on(run, alpha);
}

TEST(Faults, AnInfinityIsRejectedToo) {
  ServerRun run(one_round);
  run.start();
  Trained alpha = trained(run, "alpha");
  poison(alpha.update, std::numeric_limits<float>::infinity());
  expect_rejected(send(run, alpha), Code::not_finite, "fc.weight");
}

TEST(Faults, AModelOfAnotherStructureIsRejectedWithTheTensorsNames) {
  const std::vector<std::pair<tensor::Manifest, std::string>> others = {
      {*tensor::lay_out({{.name = "fc.weight", .dtype = tensor::DType::f32, .shape = {16, 64}}}),
       "fc.bias"},
      {small_structure(17), "fc.weight"}};
  for (const auto& [structure, word] : others) {
    ServerRun run(one_round);
    run.start();
    Trained alpha = trained(run, "alpha");
    write_model(alpha.update, structure, 3);
    expect_rejected(send(run, alpha), Code::model_mismatch, word);
  }
}

TEST(Faults, SomethingThatIsNoModelIsRejected) {
  ServerRun run(one_round);
  run.start();
  Trained alpha = trained(run, "alpha");
  ASSERT_TRUE(write_file_atomic(alpha.update, std::string(5000, 'x')));
  expect_rejected(send(run, alpha), Code::model_format, "safetensors");
}

TEST(Faults, AWrongBaseIsRefusedBeforeAByteIsSent) {
  ServerRun run(one_round);
  run.start();
  Trained alpha = trained(run, "alpha");
  alpha.metadata.base = 3;
  expect_refused(send(run, alpha), Code::wrong_base);
  alpha.metadata.base = 0;
  EXPECT_TRUE(send(run, alpha));
}

TEST(Faults, AnUpdateSentTwiceCountsOnce) {
  ServerRun run(one_round);
  run.start();
  Trained alpha = trained(run, "alpha");
  const Result<UpdateAnswer> first = send(run, alpha);
  const Result<UpdateAnswer> second = send(run, alpha);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(encode(*first), encode(*second));
}

TEST(Faults, NobodyDeliversForAnother) {
  ServerRun run(one_round);
  run.start();
  Trained alpha = trained(run, "alpha");
  alpha.id = make_update_id(FacilityId("bravo"), alpha.attempt, 1);
  expect_refused(send(run, alpha), Code::identity);
}

TEST(Faults, AnOversizedBodyIsRefused) {
  ServerRun run(one_round);
  run.start();
  Trained alpha = trained(run, "alpha");
  write_model(alpha.update, small_structure(20000), 3);
  expect_refused(send(run, alpha), Code::too_large);
}

TEST(Faults, WithoutRoomTheUploadIsRefusedAndWorksLater) {
  std::vector<std::string> options = one_round;
  options.insert(options.end(), {"--quota_mb", "1"});
  ServerRun run(options, {"alpha", "bravo"}, 2600);  // a model of 650 kB, and an update
  run.start();
  Trained alpha = trained(run, "alpha");
  expect_refused(send(run, alpha), Code::storage_full);
  run.stop_politely();
  std::ofstream(run.directory() / "config.ini", std::ios::app);
  Result<std::string> config = read_file(run.directory() / "config.ini");
  ASSERT_TRUE(config);
  config->replace(config->find("quota_mb = 1"), 12, "quota_mb = 9");
  ASSERT_TRUE(write_file_atomic(run.directory() / "config.ini", *config));
  run.start();
  alpha.link = run.link("alpha");
  const Result<UpdateAnswer> later = send(run, alpha);
  EXPECT_TRUE(later) << later.error().message;
}

TEST(Faults, ARevokedCertificateIsRefusedAtOnce) {
  ServerRun run(one_round);
  run.start();
  Trained alpha = trained(run, "alpha");
  const Finished revoked = run.server({"cert", "revoke"}, {"alpha"});
  ASSERT_EQ(revoked.exit_code, 0) << revoked.output;
  expect_refused(send(run, alpha), Code::revoked);
}

TEST(Faults, AServerThatIsDownIsNamedAsSuch) {
  ServerRun run(one_round);
  run.start();
  const std::unique_ptr<Link> link = run.link("alpha");
  run.kill_hard();
  const Result<std::string> status = link->status_json();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::network_refused) << status.error().message;
}

TEST(Faults, ACertificateForAnotherNameIsNotTrusted) {
  ServerRun run(one_round);
  run.start();
  LinkConfig config = run.link_config("alpha");
  config.server_url.replace(config.server_url.find("127.0.0.1"), 9, "127.0.0.2");
  const auto link = Link::create(config);
  ASSERT_TRUE(link);
  const Result<std::string> status = (*link)->status_json();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::tls_name) << status.error().message;
}

TEST(Faults, AKitOfAnotherRunIsNotTrusted) {
  ServerRun run(one_round);
  ServerRun other(one_round);
  run.start();
  LinkConfig config = other.link_config("alpha");
  config.server_url = run.url();
  const auto stranger = Link::create(config);
  ASSERT_TRUE(stranger);
  const Result<std::string> status = (*stranger)->status_json();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::tls_untrusted) << status.error().message;
  // And the other way round: the server's CA is right, the client's certificate is not.
  config.ca = run.link_config("alpha").ca;
  const auto impostor = Link::create(config);
  if (!impostor) return;  // the kit's own files do not fit together: refused even earlier
  const Result<std::string> refused = (*impostor)->status_json();
  ASSERT_FALSE(refused);
  EXPECT_GE(static_cast<int>(refused.error().code), 20);
  EXPECT_LE(static_cast<int>(refused.error().code), 27);
}

TEST(Faults, PlaintextOnTheTlsPortIsToldSo) {
  ServerRun run(one_round);
  run.start();
  const std::string url = run.url();
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
  ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ASSERT_GT(::write(fd, request.data(), request.size()), 0);
  std::string answer;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(fd, buffer, sizeof buffer)) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(fd);
  EXPECT_NE(answer.find("400"), std::string::npos);
  EXPECT_NE(answer.find("TLS"), std::string::npos) << answer;
}

struct BadCommand {
  std::vector<std::string> arguments;
  int exit_code;
  std::string word;
};

TEST(Faults, ACommandThatCannotWorkSaysWhyAndChangesNothing) {
  ServerRun run(one_round);
  const std::string server = program_path("fedserver");
  const std::string directory = run.directory().string();
  const std::string fresh = (run.scratch() / "fresh").string();
  const std::string initial = (run.scratch() / "initial.safetensors").string();
  const std::vector<BadCommand> commands = {
      {{server, "init", fresh, "--run", "x", "--initial", initial, "--polcy", "fedavg"},
       2,
       "policy"},
      {{server, "init", fresh, "--run", "x", "--initial", initial, "--policy", "fedagv"},
       2,
       "fedavg"},
      {{server, "init", fresh, "--run", "Not A Name", "--initial", initial}, 2, "a-z"},
      {{server, "init", fresh, "--run", "x"}, 2, "initial"},
      {{server, "init", fresh, "--run", "x", "--initial", "/nonexistent"}, 62, "/nonexistent"},
      {{server, "init", directory, "--run", "x", "--initial", initial}, 56, "already"},
      {{server, "run", fresh}, 55, "fresh"},
      {{server, "runn", directory}, 2, "run"},
      {{server, "export", directory}, 55, "started"},
      {{server, "cert", "facility", directory, "Bad_Name", "--samples", "5"}, 2, "a-z"},
      {{server, "cert", "facility", directory, "charlie", "--samples", "0"}, 2, "samples"},
      {{server, "cert", "revoke", directory, "nobody"}, 55, "nobody"}};
  for (const BadCommand& command : commands) {
    const Finished finished = run_program_to_end(command.arguments);
    EXPECT_EQ(finished.exit_code, command.exit_code) << finished.output;
    EXPECT_NE(finished.output.find(command.word), std::string::npos) << finished.output;
  }
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(fresh) / "config.ini"));
}

TEST(Faults, SettingsThatDoNotFitTogetherAreFoundWithoutStarting) {
  ServerRun run(one_round);
  EXPECT_EQ(run.server({"config", "check"}).exit_code, 0);
  const Finished finished = run.server({"config", "check"}, {"--theta_s", "5000"});
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_NE(finished.output.find("theta_s"), std::string::npos) << finished.output;
}

TEST(Faults, ControlVariatesWantPlainSgdAndModelsThatWereMadeForThem) {
  ServerRun run(one_round);
  const Finished momentum =
      run.server({"config", "check"}, {"--control_variates", "--training.momentum", "0.9"});
  EXPECT_EQ(momentum.exit_code, 2);
  EXPECT_NE(momentum.output.find("plain SGD"), std::string::npos) << momentum.output;
  const Finished late = run.server({"run"}, {"--control_variates"});
  EXPECT_EQ(late.exit_code, 2);
  EXPECT_NE(late.output.find("made for the opposite"), std::string::npos) << late.output;
}

TEST(Faults, TrainingSettingsThatNoTrainerTakesAreRefusedByTheServer) {
  ServerRun run(one_round);
  for (const auto& [name, value, expected] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"--training.batch_sise", "8", "batch_size"},
           {"--training.optimizer", "adam", "adamw"},
           {"--training.lr_schedule", "cosine", "lr_schedule_steps"}}) {
    const Finished finished = run.server({"config", "check"}, {name, value});
    EXPECT_EQ(finished.exit_code, 2) << name;
    EXPECT_NE(finished.output.find(expected), std::string::npos) << finished.output;
  }
  const Finished nova =
      run.server({"config", "check"}, {"--policy", "fednova", "--training.optimizer", "adamw"});
  EXPECT_EQ(nova.exit_code, 2);
  EXPECT_NE(nova.output.find("compares steps of plain momentum"), std::string::npos) << nova.output;
}

TEST(Faults, AnUnknownKeyInTheConfigurationNamesTheNearest) {
  ServerRun run(one_round);
  std::ofstream(run.directory() / "config.ini", std::ios::app) << "\n";
  Result<std::string> config = read_file(run.directory() / "config.ini");
  ASSERT_TRUE(write_file_atomic(run.directory() / "config.ini", "t_snyc_s = 5\n" + *config));
  const Finished finished = run.server({"run"});
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_NE(finished.output.find("t_sync_s"), std::string::npos) << finished.output;
}

}  // namespace
}  // namespace fedqueue::test
