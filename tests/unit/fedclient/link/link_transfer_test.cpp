// Models come whole and updates arrive once, whatever happens to the connection.
#include "core/base/text.h"
#include "tests/unit/fedclient/link/link_fixture.h"

namespace fedqueue::test {
namespace {

class LinkTransfer : public LinkFixture {
 protected:
  // A server that keeps what arrives of an upload, as the real one does.
  void serve_uploads(std::size_t cut_first_after) {
    serve([this](const HttpRequest& request) { return take(request); },
          [this, cut_first_after](const HttpRequest& head) {
            if (head.method != "PUT" || puts_++ > 0) return std::string::npos;
            return cut_first_after;
          });
  }
  HttpReply take(const HttpRequest& request) {
    if (request.method == "HEAD" && stored_.empty()) return {404, {}, "", std::string::npos};
    std::vector<std::string> offset = {"Fedqueue-Offset: " + std::to_string(stored_.size())};
    if (request.method == "HEAD") {
      if (decided_) offset.push_back("Fedqueue-State: stored");
      return {200, offset, "", std::string::npos};
    }
    if (request.method == "PUT") {
      const std::string range = request.headers.at("content-range");
      EXPECT_EQ(range.rfind("bytes " + std::to_string(stored_.size()) + "-", 0), 0u) << range;
      stored_ += request.body;
      if (range.substr(range.find('/') + 1) != std::to_string(stored_.size())) {
        return {500, {}, "", std::string::npos};  // not all of it: nobody will hear this
      }
      if (refuse_with_.code != Code::internal) {
        Problem problem{http_status(refuse_with_.code), refuse_with_};
        return {problem.status, {}, encode(problem), std::string::npos};
      }
      digest_ = request.headers.at("fedqueue-digest");
      metadata_ = request.headers.at("fedqueue-metadata");
      token_ = request.headers.at("fedqueue-job-token");
    }
    UpdateAnswer answer;
    answer.id = UpdateId("site-a.7.0.1");
    answer.reason = "counted in round 3";
    decided_ = true;
    return {201, {}, encode(answer), std::string::npos};
  }
  Result<UpdateAnswer> upload(const std::filesystem::path& path) {
    UpdateMetadata metadata;
    metadata.base = 2;
    metadata.steps_run = 40;
    return connect()->upload_update(UpdateId("site-a.7.0.1"), path, metadata, "job-token", {});
  }

  std::string stored_;
  bool decided_ = false;
  int puts_ = 0;
  Error refuse_with_;
  std::string digest_;
  std::string metadata_;
  std::string token_;
};

TEST_F(LinkTransfer, AnUpdateArrivesWithItsDigestAndMetadata) {
  const std::string content = pattern(3'000'001);
  serve_uploads(std::string::npos);
  Result<UpdateAnswer> answer = upload(file("update", content));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->reason, "counted in round 3");
  EXPECT_TRUE(stored_ == content) << stored_.size();
  EXPECT_EQ(digest_, xxh128_hex(std::as_bytes(std::span(content.data(), content.size()))));
  EXPECT_EQ(decode<UpdateMetadata>(metadata_)->steps_run, 40);
  EXPECT_EQ(token_, "job-token");
  EXPECT_EQ(pauses_, 0);
}

TEST_F(LinkTransfer, ACutUploadGoesOnWhereItWasCut) {
  const std::string content = pattern(5'000'000);
  serve_uploads(1'234'567);
  Result<UpdateAnswer> answer = upload(file("update", content));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(stored_ == content) << stored_.size();
  EXPECT_EQ(puts_, 2);
  for (const HttpRequest& request : requests()) {
    if (request.method == "PUT" && request.body.size() != 1'234'567) {
      EXPECT_EQ(request.headers.at("content-range"), "bytes 1234567-4999999/5000000");
    }
  }
}

TEST_F(LinkTransfer, AnUpdateThatTheServerHasIsNotSentAgain) {
  stored_ = "the whole of it";
  decided_ = true;
  serve_uploads(std::string::npos);
  Result<UpdateAnswer> answer = upload(file("update", stored_));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->reason, "counted in round 3");
  EXPECT_EQ(puts_, 0);
  Result<std::optional<UpdateAnswer>> known = connect()->update_answer(UpdateId("site-a.7.0.1"));
  ASSERT_TRUE(known);
  EXPECT_TRUE(known->has_value());
}

TEST_F(LinkTransfer, ARefusedUpdateIsNotSentAgain) {
  refuse_with_ = {Code::not_finite, "tensor 'fc.weight' holds NaN", ""};
  serve_uploads(std::string::npos);
  Result<UpdateAnswer> answer = upload(file("update", pattern(100'000)));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::not_finite);
  EXPECT_EQ(puts_, 1);
  EXPECT_EQ(pauses_, 0);
}

TEST_F(LinkTransfer, AServerThatIsBusyIsAskedAgain) {
  int asked = 0;
  serve([&](const HttpRequest& request) {
    if (asked++ < 2) return HttpReply{503, {}, "", std::string::npos};
    return take(request);
  });
  Result<UpdateAnswer> answer = upload(file("update", pattern(1000)));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(pauses_, 2);
}

TEST_F(LinkTransfer, AnUploadGivesUpInTheEnd) {
  serve([](const HttpRequest&) { return HttpReply{503, {}, "", std::string::npos}; });
  RetryPolicy soon;
  soon.give_up_after = Duration(0);
  Result<UpdateAnswer> answer = connect()->upload_update(
      UpdateId("site-a.7.0.1"), file("update", pattern(1000)), {}, "token", soon);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::server_error);
}

TEST_F(LinkTransfer, AModelIsCheckedAndLiesThereWhole) {
  const std::string model = pattern(2'500'000);
  serve([&](const HttpRequest& request) {
    if (request.target == "/v1/runs/mnist/models/latest") {
      return HttpReply{307, {"Location: models/5"}, "", std::string::npos};
    }
    return HttpReply{200, {"ETag: \"" + sha256_hex(model) + "\""}, model, std::string::npos};
  });
  const std::filesystem::path path = directory_ / "model.safetensors";
  Result<DownloadedModel> downloaded = connect()->download_model(std::nullopt, path);
  ASSERT_TRUE(downloaded) << downloaded.error().message;
  EXPECT_EQ(downloaded->version, 5);
  EXPECT_EQ(downloaded->bytes, model.size());
  EXPECT_EQ(downloaded->sha256, sha256_hex(model));
  EXPECT_TRUE(read_file(path).value() == model);
}

TEST_F(LinkTransfer, ACutDownloadGoesOnWithTheRest) {
  const std::string model = pattern(4'000'000);
  int gets = 0;
  serve([&](const HttpRequest& request) {
    const std::string etag = "ETag: \"" + sha256_hex(model) + "\"";
    if (gets++ == 0) return HttpReply{200, {etag}, model, 1'500'000};
    const std::string range = request.headers.at("range");
    EXPECT_EQ(request.headers.at("if-range"), "\"" + sha256_hex(model) + "\"");
    const auto from =
        static_cast<std::size_t>(parse_integer(split(range.substr(6), '-')[0]).value());
    EXPECT_GT(from, 0u);
    return HttpReply{
        206,
        {etag, "Content-Range: bytes " + std::to_string(from) + "-" +
                   std::to_string(model.size() - 1) + "/" + std::to_string(model.size())},
        model.substr(from),
        std::string::npos};
  });
  const std::filesystem::path path = directory_ / "model.safetensors";
  Result<DownloadedModel> downloaded = connect()->download_model(5, path);
  ASSERT_TRUE(downloaded) << downloaded.error().message;
  EXPECT_EQ(gets, 2);
  EXPECT_TRUE(read_file(path).value() == model);
}

TEST_F(LinkTransfer, AModelThatDoesNotMatchItsChecksumIsNotKept) {
  serve([&](const HttpRequest&) {
    return HttpReply{200, {"ETag: \"" + sha256_hex("another") + "\""}, "model", std::string::npos};
  });
  const std::filesystem::path path = directory_ / "model.safetensors";
  file("model.safetensors", "the old one");
  Result<DownloadedModel> downloaded = connect()->download_model(5, path);
  ASSERT_FALSE(downloaded);
  EXPECT_EQ(downloaded.error().code, Code::model_format);
  EXPECT_NE(downloaded.error().message.find(sha256_hex("another")), std::string::npos);
  EXPECT_EQ(read_file(path).value(), "the old one");
  EXPECT_EQ(requests().size(), 2u);  // it was worth one more try
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    EXPECT_EQ(entry.path().string().find(".part-"), std::string::npos) << entry.path();
  }
}

TEST_F(LinkTransfer, AMissingModelIsReportedAtOnce) {
  serve([&](const HttpRequest&) { return HttpReply{404, {}, "", std::string::npos}; });
  Result<DownloadedModel> downloaded = connect()->download_model(9, directory_ / "model");
  ASSERT_FALSE(downloaded);
  EXPECT_EQ(downloaded.error().code, Code::not_found);
  EXPECT_EQ(pauses_, 0);
}

}  // namespace
}  // namespace fedqueue::test
