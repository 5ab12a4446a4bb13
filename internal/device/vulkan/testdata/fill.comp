#version 450
#extension GL_GOOGLE_include_directive : require
#define THREADS 64
#define OPERANDS Words x, y;
#include "launch.glsl"

// scratch = x, from its end to its beginning: the first entry of mirror.
void main() {
	uint i = thread();
	if (i < launch.count.x)
		launch.scratch.at[i] = launch.x.at[launch.count.x - 1 - i];
}
