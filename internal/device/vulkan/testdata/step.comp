#version 450
#extension GL_GOOGLE_include_directive : require
#define THREADS 64
#define OPERANDS Words x;
#include "launch.glsl"

// x = 3x + 1, rounds times.
void main() {
	uint i = thread();
	if (i >= launch.count.x)
		return;
	uint v = launch.x.at[i];
	for (uint r = 0; r < launch.rounds.x; r++)
		v = 3 * v + 1;
	launch.x.at[i] = v;
}
