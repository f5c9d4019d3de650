#pragma once
constexpr long MARKER = 1;
constexpr long DELAY = 0;  // turns of an empty loop a call
constexpr float SCALE = 1.0f;
