#version 450
#extension GL_GOOGLE_include_directive : require
#define THREADS 64
#define OPERANDS Words x;
#include "launch.glsl"

// Each of x must be less than rounds. One thread of those that find another tells.
void main() {
	uint i = thread();
	if (i >= launch.count.x || launch.x.at[i] < launch.rounds.x)
		return;
	if (atomicCompSwap(launch.report.number.x, 0u, 1u) == 0u) {
		launch.report.value = uvec2(launch.x.at[i], 0u);
		launch.report.most = uvec2(launch.rounds.x - 1u, 0u);
	}
}
