// An update is looked at before it is stored: structure, numbers, size.
#include "aggregation/reduce/screen.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "model_files.h"

namespace fedqueue {
namespace {

using tensor::DType;
using testing::HasSubstr;

class Screen : public ModelFiles {
 protected:
  void SetUp() override {
    ModelFiles::SetUp();
    write("model", {f32("fc.weight", {0, 0, 0}), of_type(DType::bf16, "fc.bias", {0}),
                    scalar(DType::i64, "steps", 0)});
    model_ = tensor::Reader::open(path("model"))->manifest();
  }
  Result<ScreenReport> screen(const std::vector<TestTensor>& update, double norm_max = 0) {
    return screen_update(write("update", update), model_, {.norm_max = norm_max});
  }
  static std::vector<TestTensor> update(std::vector<double> weight, double bias = 0) {
    return {f32("fc.weight", std::move(weight)), of_type(DType::bf16, "fc.bias", {bias}),
            scalar(DType::i64, "steps", 1'000'000)};
  }
  static void expect_error(const Result<ScreenReport>& report, Code code, const std::string& text) {
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, code) << report.error().message;
    EXPECT_THAT(report.error().message, HasSubstr(text));
  }

  tensor::Manifest model_;
};

TEST_F(Screen, AGoodUpdateIsMeasuredOverItsFloats) {
  const auto report = screen(update({2, 0, 1}, 2));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_DOUBLE_EQ(report->norm, 3) << "integers are not part of the norm";
  EXPECT_EQ(report->elements, 5u);
  EXPECT_EQ(report->bytes, std::filesystem::file_size(path("update")));
}

TEST_F(Screen, OtherStructuresAreNamed) {
  auto missing = update({0, 0, 0});
  missing.pop_back();
  expect_error(screen(missing), Code::model_mismatch, "tensor 'steps': expected i64 []");
  auto extra = update({0, 0, 0});
  extra.push_back(f32("more", {1}));
  expect_error(screen(extra), Code::model_mismatch, "'more': not part of the model");
  expect_error(screen(update({0, 0})), Code::model_mismatch,
               "tensor 'fc.weight': expected f32 [3], got f32 [2]");
  auto retyped = update({0, 0, 0});
  retyped[1] = of_type(DType::f16, "fc.bias", {0});
  expect_error(screen(retyped), Code::model_mismatch, "expected bf16 [1], got f16 [1]");
}

TEST_F(Screen, WhatIsNotANumberIsNamedWithItsPlace) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  expect_error(screen(update({0, NAN, 0})), Code::not_finite, "'fc.weight' is NaN at element 1");
  expect_error(screen(update({0, 0, -infinity})), Code::not_finite,
               "'fc.weight' is negative infinite at element 2");
  expect_error(screen(update({0, 0, 0}, infinity)), Code::not_finite,
               "'fc.bias' is infinite at element 0");
}

TEST_F(Screen, APlaceDeepInALargeTensorIsFound) {
  std::vector<double> values(200'000, 0.5);
  write("large", {f32("w", values)});
  const tensor::Manifest large = tensor::Reader::open(path("large"))->manifest();
  EXPECT_NEAR(screen_update(path("large"), large, {})->norm, std::sqrt(50'000), 1e-9);
  values[151'234] = NAN;
  write("large", {f32("w", values)});
  expect_error(screen_update(path("large"), large, {}), Code::not_finite, "element 151234");
}

TEST_F(Screen, TheNormHasALimit) {
  EXPECT_TRUE(screen(update({3, 4, 0}), 5));
  expect_error(screen(update({3, 4, 1}), 5), Code::aggregation, "above the run's limit 5");
  expect_error(screen(update({1e30, 0, 0}), 5), Code::aggregation, "1e+30");
}

TEST_F(Screen, HugeDoublesAreStillNumbers) {
  write("doubles", {of_type(DType::f64, "w", {1e200, 1e200})});
  const tensor::Manifest doubles = tensor::Reader::open(path("doubles"))->manifest();
  EXPECT_TRUE(screen_update(path("doubles"), doubles, {}));
  expect_error(screen_update(path("doubles"), doubles, {.norm_max = 1e100}), Code::aggregation,
               "limit");
}

TEST_F(Screen, WhatIsNoModelFileIsRefused) {
  std::ofstream(path("update")) << "<html>proxy error</html>";
  expect_error(screen_update(path("update"), model_, {}), Code::model_format, "safetensors");
  expect_error(screen_update(path("absent"), model_, {}), Code::storage, "absent");
}

}  // namespace
}  // namespace fedqueue
