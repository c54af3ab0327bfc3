/** When was what is in an archive last changed? git says now of a folder, and no two archives of it would be the same. */
const blockBytes = 512;
const field = { size: [124, 136], time: [136, 148], checksum: [148, 156] } as const;
const mostSeconds = 0o77777777777;

/** A tar as git writes it, each of its entries as of `seconds` since 1970. */
export async function* withTimes(tar: AsyncIterable<Buffer>, seconds: number): AsyncGenerator<Buffer> {
  const time = Math.min(Math.max(0, seconds), mostSeconds);
  let begun: Buffer = Buffer.alloc(0);
  let contentBytes = 0;
  for await (const chunk of tar) {
    let rest = begun.length === 0 ? chunk : Buffer.concat([begun, chunk]);
    while (rest.length > 0) {
      if (contentBytes > 0) {
        const content = rest.subarray(0, contentBytes);
        contentBytes -= content.length;
        rest = rest.subarray(content.length);
        yield content;
        continue;
      }
      if (rest.length < blockBytes) break;
      const header = Buffer.from(rest.subarray(0, blockBytes));
      rest = rest.subarray(blockBytes);
      // At its end are blocks of zeros alone.
      if (header[0] !== 0) contentBytes = timed(header, time);
      yield header;
    }
    begun = rest;
  }
  if (begun.length > 0) yield begun;
}

/** How many bytes come before the next header. */
function timed(header: Buffer, time: number): number {
  header.write(`${time.toString(8).padStart(11, '0')}\0`, field.time[0], 'latin1');
  header.fill(' ', ...field.checksum);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(7, '0')}\0`, field.checksum[0], 'latin1');
  const size = Number.parseInt(header.toString('latin1', ...field.size), 8);
  return Math.ceil(size / blockBytes) * blockBytes;
}
