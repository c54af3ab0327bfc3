/** A part of a page under its heading. */
import type { ComponentChildren } from 'preact';

export function Section({
  title,
  side,
  children,
}: {
  title: string;
  side?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section>
      <div class="section-head">
        <h2>{title}</h2>
        {side === undefined ? null : <div class="section-side">{side}</div>}
      </div>
      {children}
    </section>
  );
}
