/** A table that scrolls by itself where it is too wide, with a caption for who does not see what stands above it. */
import type { ComponentChildren } from 'preact';

/** A heading that starts with `-` is of a column that narrow screens do without. */
export function Table({
  caption,
  head,
  children,
}: {
  caption: string;
  head: readonly string[];
  children: ComponentChildren;
}) {
  return (
    <div class="table" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {head.map((title) => (
              <th key={title} scope="col" class={title.startsWith('-') ? 'wide' : undefined}>
                {title === 'Actions' ? <span class="hidden">{title}</span> : title.replace(/^-/, '')}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
