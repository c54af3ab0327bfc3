import isNumber from 'is-number';

const built = (await Bun.file('built.txt').text()).trim();

const server = Bun.serve({
  port: Number(process.env['PORT'] ?? 3000),
  fetch: () => new Response(`Hello from Bun ${Bun.version}: built ${built}, ${isNumber('7') ? 'with' : 'without'} its packages\n`),
});

process.on('SIGTERM', async () => {
  await server.stop();
  process.exit(0);
});
