"""Operations of torch in terms of other operations of torch."""
