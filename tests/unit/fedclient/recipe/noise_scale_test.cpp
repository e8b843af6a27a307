#include "fedclient/recipe/noise_scale.h"

#include <gtest/gtest.h>

namespace fedqueue {
namespace {

// b = 32, B = 256, |g_b|² = 5, |g_B|² = 1.5: G² = 1, S = 128.
TEST(NoiseScale, FollowsTheWorkedExample) {
  NoiseScale noise;
  EXPECT_FALSE(noise.samples().has_value());
  noise.add({5, 1.5, 32, 256});
  ASSERT_TRUE(noise.samples().has_value());
  EXPECT_NEAR(*noise.samples(), 128, 1e-9);
}

// f = 8, σ² = 8, μ² = 2: r = 10/3. With b = 1 and B = 8: |g_b|² = σ² + μ², |g_B|² = σ²/8 + μ².
TEST(NoiseScale, TheGainIsThatOfAdaScale) {
  NoiseScale noise;
  EXPECT_EQ(noise.gain(8), 1) << "before anything is known";
  noise.add({10, 3, 1, 8});
  EXPECT_NEAR(noise.gain(8), 10.0 / 3, 1e-9);
  EXPECT_EQ(noise.gain(1), 1);
}

TEST(NoiseScale, TheGainLiesBetweenOneAndTheRanks) {
  NoiseScale calm;
  calm.add({4, 4, 16, 64});  // every rank has the same gradient
  EXPECT_DOUBLE_EQ(calm.gain(4), 1);
  NoiseScale noisy;
  noisy.add({4, 1, 16, 64});  // pure noise: four times the samples, a quarter of the square
  EXPECT_DOUBLE_EQ(noisy.gain(4), 4);
  EXPECT_FALSE(noisy.samples().has_value()) << "no signal yet: the scale is not known";
}

TEST(NoiseScale, SmoothsBothPartsBeforeItDivides) {
  NoiseScale noise(0.5);
  noise.add({5, 1.5, 32, 256});            // G² 1, S 128
  noise.add({5 + 3.5, 1.5 + 0, 32, 256});  // G² 0.5, S 256
  EXPECT_NEAR(*noise.samples(), (128 + 256) / (1 + 0.5), 1e-9);
}

TEST(NoiseScale, OneRankSaysNothing) {
  NoiseScale noise;
  noise.add({5, 5, 64, 64});
  EXPECT_FALSE(noise.samples().has_value());
}

}  // namespace
}  // namespace fedqueue
